"""Parcels, vehicles, flights, trains and beds."""

from __future__ import annotations

from schemas.parts import (
    CLOCK,
    DATE,
    EMAIL,
    FLAG,
    LINK,
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
    number,
    one_of,
    only,
    pattern,
    record,
    ref,
    table,
    text,
    tuple_of,
)

AIRPORT = pattern("[A-Z]{3}")
PLATE = pattern(r"[A-Z]{1,3}-[A-Z]{1,2} \d{1,4}")
PLACE = record({"lat": number(-90, 90), "lon": number(-180, 180)})

SCHEMAS: dict[str, Schema] = {
    "shipment": record(
        {
            "tracking": pattern(r"[A-Z]{2}\d{9}[A-Z]{2}"),
            "service": choice("standard", "express", "freight"),
            "parcels": many(
                record(
                    {
                        "kg": between(0, 70),
                        "cm": tuple_of(integer(1, 300), integer(1, 300), integer(1, 300)),
                    }
                ),
                1,
                2,
            ),
            "insured": maybe(number(0, 50000)),
        }
    ),
    "tracking history": record(
        {
            "state": choice("created", "in transit", "delivered", "returned"),
            "events": many(record({"at": MOMENT, "where": text(16), "what": text(30)}), 1, 3),
        }
    ),
    "customs declaration": record(
        {
            "origin": pattern("[A-Z]{2}"),
            "goods": many(
                record(
                    {
                        "hs_code": pattern(r"\d{4}\.\d{2}"),
                        "value": number(0, 1e6),
                        "pieces": integer(1, 9999),
                    }
                ),
                1,
                2,
            ),
            "gift": FLAG,
        }
    ),
    "delivery route": record(
        {
            "driver": text(20),
            "van": PLATE,
            "stops": many(record({"order": integer(1, 99), "place": PLACE, "eta": CLOCK}), 1, 3),
        }
    ),
    "flight": record(
        {
            "number": pattern(r"[A-Z]{2}\d{2,4}"),
            "from": AIRPORT,
            "to": AIRPORT,
            "departs": MOMENT,
            "gate": maybe(pattern(r"[A-F]\d{1,2}")),
            "status": choice("on time", "delayed", "cancelled", "landed"),
        }
    ),
    "boarding pass": record(
        {
            "passenger": pattern("[A-Z]{2,12}/[A-Z]{2,12}"),
            "seat": pattern("([1-9]|[1-3][0-9])[A-F]"),
            "group": integer(1, 6),
            "bags": integer(0, 3),
            "booking": pattern("[A-Z0-9]{6}"),
        }
    ),
    "flight search": record(
        {
            "legs": many(record({"from": AIRPORT, "to": AIRPORT, "on": DATE}), 1, 2),
            "cabin": choice("economy", "premium", "business", "first"),
            "adults": integer(1, 9),
            "children?": integer(0, 8),
            "direct_only": FLAG,
        }
    ),
    "train connection": record(
        {
            "legs": many(
                record(
                    {
                        "train": pattern(r"(ICE|IC|RE|S)\d{1,4}"),
                        "platform": pattern(r"\d{1,2}[a-c]?"),
                        "leaves": CLOCK,
                        "arrives": CLOCK,
                    }
                ),
                1,
                2,
            ),
            "changes": integer(0, 5),
            "price": maybe(number(0, 400)),
        }
    ),
    "hotel booking": record(
        {
            "hotel": text(24, 2),
            "check_in": DATE,
            "nights": integer(1, 30),
            "room": choice("single", "double", "suite"),
            "guests": many(record({"name": text(20), "child?": FLAG}), 1, 2),
            "breakfast": FLAG,
        }
    ),
    "hotel": record(
        {
            "name": text(24),
            "stars": any_of(only("unrated"), integer(1, 5)),
            "place": PLACE,
            "amenities": many(choice("pool", "spa", "wifi", "parking", "gym"), 0, 3),
            "rates": table(number(20, 2000), "(single|double)"),
        }
    ),
    "rental car": record(
        {
            "class": choice("mini", "compact", "estate", "van"),
            "plate": PLATE,
            "km": integer(0, 500000),
            "fuel": one_of(
                record({"kind": only("electric"), "charge": integer(0, 100)}),
                record({"kind": choice("petrol", "diesel"), "litres": number(0, 80)}),
            ),
        }
    ),
    "ride request": record(
        {
            "from": PLACE,
            "to": PLACE,
            "when": any_of(only("now"), MOMENT),
            "seats": integer(1, 6),
            "shared": FLAG,
        }
    ),
    "charging station": record(
        {
            "id": pattern(r"DE\*[A-Z]{3}\*E\d{4}"),
            "plugs": many(
                record(
                    {
                        "type": choice("CCS", "Type 2", "CHAdeMO"),
                        "kw": choice(11, 22, 50, 150, 300),
                        "free": FLAG,
                    }
                ),
                1,
                3,
            ),
            "price_kwh": between(0, 2),
        }
    ),
    "vehicle inspection": record(
        {
            "plate": PLATE,
            "km": integer(0, 999999),
            "defects": many(
                record({"part": text(16), "grade": choice("minor", "major", "dangerous")}), 0, 2
            ),
            "passed": FLAG,
            "next": maybe(pattern(r"(0[1-9]|1[0-2])/20\d{2}")),
        }
    ),
    "parking ticket": record(
        {
            "zone": integer(1, 99),
            "plate": PLATE,
            "from": MOMENT,
            "minutes": integer(5, 1440),
            "fee": number(0, 100),
        }
    ),
    "bus stop": record(
        {
            "name": text(24, 2),
            "lines": many(pattern(r"[MXN]?\d{1,3}"), 1, 4),
            "shelter": FLAG,
            "next": many(record({"line": text(4), "minutes": integer(0, 60)}), 0, 3),
        }
    ),
    "journey plan": {
        **record({"name": text(20), "steps": many(ref("step"), 1, 3)}),
        "$defs": {
            "step": one_of(
                record({"by": only("foot"), "metres": integer(1, 5000)}),
                record({"by": only("bus"), "line": text(4), "stops": integer(1, 40)}),
                record({"by": only("wait"), "time": SPAN}),
            )
        },
    },
    "visa application": record(
        {
            "passport": pattern("[A-Z0-9]{9}"),
            "purpose": choice("tourism", "business", "study"),
            "stay": record({"from": DATE, "to": DATE}),
            "contact": EMAIL,
            "sponsor": maybe(text(24)),
        }
    ),
    "packing list": record(
        {
            "trip": text(24),
            "bags": many(
                record({"bag": choice("cabin", "hold"), "things": many(text(14, 2), 1, 4)}), 1, 2
            ),
        }
    ),
    "lost luggage": record(
        {
            "tag": pattern(r"\d{10}"),
            "colour": choice("black", "blue", "red", "grey"),
            "contents": text(60),
            "deliver_to?": record({"street": text(24), "city": text(16)}),
        }
    ),
    "container manifest": record(
        {
            "container": pattern(r"[A-Z]{3}U\d{7}"),
            "vessel": text(20),
            "port": record({"load": pattern("[A-Z]{5}"), "discharge": pattern("[A-Z]{5}")}),
            "dangerous": many(pattern(r"UN\d{4}"), 0, 2),
            "temperature?": number(-30, 30),
        }
    ),
    "warehouse pick list": record(
        {
            "wave": UUID,
            "picks": many(
                record({"bin": pattern(r"[A-Z]\d{2}-\d{2}"), "sku": text(10), "n": integer(1, 99)}),
                1,
                4,
            ),
        }
    ),
    "ferry timetable": record(
        {
            "route": tuple_of(text(16, 2), text(16, 2)),
            "season": choice("summer", "winter"),
            "sailings": many(pattern(r"([01]\d|2[0-3]):[0-5]\d"), 1, 5),
        }
    ),
    "toll passage": record(
        {
            "gantry": integer(1, 500),
            "axles": integer(2, 8),
            "class": choice("EURO4", "EURO5", "EURO6", "ZE"),
            "cents": integer(0, 5000),
            "photo?": LINK,
        }
    ),
    "trip review": record(
        {
            "overall": integer(1, 10),
            "by_topic": table(integer(1, 10), "(food|room|staff|location)"),
            "liked": text(60),
            "disliked": maybe(text(60)),
        }
    ),
}
