"""Clinics, laboratories, sport and food."""

from __future__ import annotations

from schemas.parts import (
    CLOCK,
    DATE,
    FLAG,
    MOMENT,
    SPAN,
    UUID,
    Schema,
    any_of,
    between,
    choice,
    integer,
    many,
    maybe,
    multiple,
    number,
    one_of,
    only,
    pattern,
    record,
    ref,
    table,
    text,
)

DOSE = record({"value": between(0, 1000), "unit": choice("mg", "ml", "µg", "drops")})

SCHEMAS: dict[str, Schema] = {
    "patient": record(
        {
            "id": pattern(r"P-\d{7}"),
            "name": record({"given": many(text(12, 1), 1, 2), "family": text(20, 1)}),
            "sex": choice("female", "male", "other", "unknown"),
            "born": DATE,
            "allergies": many(
                record({"substance": text(16), "severity": choice("mild", "severe")}), 0, 2
            ),
            "blood_group?": pattern("(A|B|AB|0)[+-]"),
        }
    ),
    "appointment": record(
        {
            "patient": pattern(r"P-\d{7}"),
            "with": text(24),
            "at": MOMENT,
            "room?": pattern(r"[A-D]\d{2}"),
            "state": choice("booked", "arrived", "done", "missed"),
        }
    ),
    "prescription": record(
        {
            "drug": text(24, 3),
            "dose": DOSE,
            "times_a_day": integer(1, 6),
            "days": integer(1, 90),
            "with_food": maybe(FLAG),
        }
    ),
    "lab report": record(
        {
            "sample": choice("blood", "urine", "saliva"),
            "taken": MOMENT,
            "values": many(
                record(
                    {
                        "test": choice("glucose", "sodium", "potassium", "iron"),
                        "value": number(0, 1000),
                        "flag": maybe(choice("low", "high")),
                    }
                ),
                1,
                3,
            ),
        }
    ),
    "vital signs": record(
        {
            "pulse": integer(20, 250),
            "pressure": pattern(r"\d{2,3}/\d{2,3}"),
            "temperature": number(30, 44),
            "oxygen": integer(50, 100),
            "at": CLOCK,
        }
    ),
    "vaccination card": record(
        {
            "holder": text(24),
            "shots": many(
                record(
                    {"against": choice("tetanus", "measles", "flu"), "on": DATE, "lot": text(10)}
                ),
                0,
                3,
            ),
        }
    ),
    "referral": record(
        {
            "from": text(24),
            "to_speciality": choice("cardiology", "dermatology", "neurology"),
            "urgency": choice("routine", "soon", "emergency"),
            "question": text(100, 10),
        }
    ),
    "diagnosis": record(
        {
            "code": pattern(r"[A-Z]\d{2}(\.\d)?"),
            "text": text(50),
            "certainty": choice("suspected", "confirmed", "excluded"),
            "since?": DATE,
        }
    ),
    "triage": record(
        {
            "colour": choice("red", "orange", "yellow", "green", "blue"),
            "complaint": text(50),
            "pain": integer(0, 10),
            "wait_minutes": multiple(10, 0, 240),
        }
    ),
    "operating schedule": record(
        {
            "theatre": integer(1, 12),
            "date": DATE,
            "cases": many(record({"start": pattern(r"\d{2}:\d{2}"), "procedure": text(24)}), 1, 3),
        }
    ),
    "menu": record(
        {
            "restaurant": text(24, 1),
            "courses": record(
                {
                    "starters": many(record({"dish": text(24), "price": number(1, 50)}), 1, 2),
                    "mains": many(record({"dish": text(24), "price": number(5, 90)}), 1, 2),
                }
            ),
            "currency": choice("EUR", "USD"),
        }
    ),
    "recipe": record(
        {
            "title": text(30, 3),
            "serves": integer(1, 12),
            "ingredients": many(
                record(
                    {
                        "what": text(16, 1),
                        "amount": maybe(number(0, 5000)),
                        "unit?": choice("g", "ml", "tsp", "tbsp", "cup"),
                    }
                ),
                2,
                4,
            ),
            "steps": many(text(50, 5), 1, 3),
        }
    ),
    "nutrition facts": record(
        {
            "per": choice("100 g", "100 ml", "portion"),
            "kcal": integer(0, 900),
            "fat": number(0, 100),
            "protein": number(0, 100),
            "vitamins": table(number(0, 1), "[A-K]"),
        }
    ),
    "table reservation": record(
        {
            "name": text(20, 2),
            "guests": integer(1, 16),
            "on": DATE,
            "at": pattern(r"(1[7-9]|2[0-2]):(00|15|30|45)"),
            "wishes": many(choice("window", "outside", "high chair", "quiet"), 0, 2),
        }
    ),
    "food order": record(
        {
            "items": many(
                record(
                    {
                        "dish": text(20),
                        "extras": many(text(12), 0, 2),
                        "size": choice("small", "large"),
                    }
                ),
                1,
                2,
            ),
            "delivery": any_of(
                only("pickup"), record({"street": text(24), "floor?": integer(0, 40)})
            ),
        }
    ),
    "workout": record(
        {
            "sport": choice("run", "ride", "swim", "row"),
            "distance_m": integer(0, 200000),
            "time": SPAN,
            "laps": many(record({"seconds": number(0, 3600), "pulse?": integer(40, 220)}), 0, 3),
        }
    ),
    "training plan": record(
        {
            "goal": text(30),
            "weeks": many(
                record(
                    {
                        "number": integer(1, 52),
                        "days": table(text(20), "(mon|wed|fri)"),
                    }
                ),
                1,
                2,
            ),
        }
    ),
    "sleep report": record(
        {
            "night": DATE,
            "phases": many(
                record({"phase": choice("light", "deep", "rem"), "minutes": integer(1, 300)}), 2, 5
            ),
            "score": integer(0, 100),
        }
    ),
    "match result": record(
        {
            "home": text(20, 2),
            "away": text(20, 2),
            "score": record({"home": integer(0, 20), "away": integer(0, 20)}),
            "goals": many(record({"minute": integer(1, 120), "by": text(16)}), 0, 3),
        }
    ),
    "league table": many(
        record({"rank": integer(1, 20), "club": text(20), "points": integer(0, 114)}), 2, 4
    ),
    "tournament bracket": {
        **ref("round"),
        "$defs": {
            "round": record(
                {
                    "winner": maybe(text(12)),
                    "sides": many(any_of(text(12), ref("round")), 2, 2),
                }
            )
        },
    },
    "clinical trial": record(
        {
            "id": pattern(r"NCT\d{8}"),
            "phase": choice(1, 2, 3, 4),
            "arms": many(
                one_of(
                    record({"kind": only("drug"), "dose": DOSE}),
                    record({"kind": only("placebo")}),
                ),
                1,
                2,
            ),
            "enrolled": integer(0, 100000),
        }
    ),
    "medical device reading": record(
        {
            "device": UUID,
            "battery": integer(0, 100),
            "reading": one_of(
                record({"kind": only("glucose"), "mg_dl": integer(20, 600)}),
                record({"kind": only("weight"), "kg": number(1, 300)}),
            ),
        }
    ),
    "allergy profile": record(
        {
            "gluten": choice("none", "traces", "contains"),
            "nuts": choice("none", "traces", "contains"),
            "other": many(text(12), 0, 3),
        }
    ),
    "care plan": {
        **record({"goals": many(ref("goal"), 1, 2), "review": DATE}),
        "$defs": {
            "goal": record(
                {
                    "aim": text(40),
                    "measures": many(record({"who": text(16), "does": text(30)}), 1, 2),
                    "reached": FLAG,
                }
            )
        },
    },
}
