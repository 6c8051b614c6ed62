"""Councils, courts, elections, factories, research and statistics."""

from __future__ import annotations

from schemas.parts import (
    CLOCK,
    DATE,
    EMAIL,
    FLAG,
    LINK,
    MOMENT,
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
    tuple_of,
)

SCHEMAS: dict[str, Schema] = {
    "building permit": record(
        {
            "file": pattern(r"\d{2}/\d{5}"),
            "applicant": text(24),
            "measure": choice("new", "extension", "change of use", "demolition"),
            "storeys?": integer(1, 40),
            "decision": maybe(record({"granted": FLAG, "on": DATE})),
        }
    ),
    "council vote": record(
        {
            "motion": text(60, 5),
            "for": integer(0, 100),
            "against": integer(0, 100),
            "abstained": integer(0, 100),
            "carried": FLAG,
        }
    ),
    "election result": record(
        {
            "district": integer(1, 299),
            "turnout": number(0, 100),
            "parties": many(record({"party": text(12, 1), "votes": integer(0)}), 2, 4),
        }
    ),
    "parliament speech": record(
        {
            "session": integer(1, 300),
            "speaker": text(24),
            "excerpt": text(100),
            "interjections?": many(record({"by": text(16), "text": text(30)}), 0, 2),
        }
    ),
    "court case": record(
        {
            "number": pattern(r"\d{1,2} [A-Z] \d{1,4}/\d{2}"),
            "parties": record({"plaintiff": text(24), "defendant": text(24)}),
            "hearings": many(record({"at": MOMENT, "room": text(8)}), 0, 2),
            "closed": FLAG,
        }
    ),
    "contract clauses": {
        **record({"contract": text(30), "clauses": many(ref("clause"), 1, 3)}),
        "$defs": {
            "clause": record(
                {
                    "number": pattern(r"\d{1,2}(\.\d{1,2}){0,2}"),
                    "text": text(60),
                    "sub?": many(ref("clause"), 0, 2),
                }
            )
        },
    },
    "passport data": record(
        {
            "type": only("P"),
            "issuer": pattern("[A-Z]{3}"),
            "number": pattern("[CFGHJKLMNPRTVWXYZ0-9]{9}"),
            "surname": pattern("[A-Z]{2,20}"),
            "expires": DATE,
        }
    ),
    "company register entry": record(
        {
            "register": pattern(r"HR[AB] \d{3,6}"),
            "name": text(30, 3),
            "form": choice("GmbH", "AG", "KG", "eG"),
            "capital": multiple(1, 0, 10000000),
            "directors": many(record({"name": text(20), "born": DATE}), 1, 2),
        }
    ),
    "grant application": record(
        {
            "title": text(50, 5),
            "budget": record({"staff": integer(0), "travel": integer(0), "equipment": integer(0)}),
            "months": integer(6, 60),
            "partners": many(record({"name": text(24), "country": pattern("[A-Z]{2}")}), 0, 2),
        }
    ),
    "experiment": record(
        {
            "hypothesis": text(80, 10),
            "samples": integer(1, 100000),
            "p_value": number(0, 1),
            "effect": record({"mean": number(), "interval": tuple_of(number(), number())}),
        }
    ),
    "survey answer": record(
        {
            "respondent": UUID,
            "answers": table(any_of(integer(1, 5), text(40), many(text(10), 0, 2)), r"q\d{1,2}"),
            "minutes": between(0, 120),
        }
    ),
    "census row": record(
        {
            "age_group": pattern(r"\d{1,2}-\d{1,2}"),
            "household": integer(1, 15),
            "work": choice("employed", "unemployed", "pupil", "retired"),
            "commute_km": maybe(number(0, 300)),
        }
    ),
    "pivot table": record(
        {
            "rows": many(text(12), 1, 2),
            "columns": many(text(12), 1, 2),
            "cells": many(many(maybe(number()), 1, 2), 1, 2),
        }
    ),
    "chart": record(
        {
            "type": choice("bar", "line", "pie"),
            "title": text(30),
            "series": many(record({"label": text(14), "data": many(number(), 2, 4)}), 1, 2),
            "axis?": record({"min": number(), "max": number(), "log": FLAG}),
        }
    ),
    "production order": record(
        {
            "order": integer(1000, 9999999),
            "material": pattern(r"M\d{5}"),
            "quantity": integer(1, 100000),
            "operations": many(
                record({"station": pattern(r"[A-Z]{2}\d{2}"), "minutes": number(0, 5000)}), 1, 3
            ),
        }
    ),
    "bill of materials": record(
        {
            "part": pattern(r"\d{3}-\d{4}"),
            "count": integer(1, 999),
            "parts?": many({"$ref": "#"}, 0, 2),
        }
    ),
    "machine state": record(
        {
            "machine": pattern(r"[A-Z]{3}\d{2}"),
            "state": one_of(
                record({"is": only("running"), "rpm": integer(1, 30000)}),
                record({"is": only("idle"), "since": MOMENT}),
                record({"is": only("fault"), "code": pattern(r"E\d{3}"), "text": text(30)}),
            ),
        }
    ),
    "quality inspection": record(
        {
            "batch": pattern(r"B\d{6}"),
            "measured": many(record({"what": text(12), "mm": between(0, 1000), "ok": FLAG}), 1, 3),
            "verdict": choice("accept", "rework", "scrap"),
        }
    ),
    "maintenance plan": record(
        {
            "asset": text(20, 2),
            "tasks": many(
                record({"task": text(24), "every": choice("week", "month", "year")}), 1, 3
            ),
            "last?": DATE,
        }
    ),
    "shift roster": record(
        {
            "week": integer(1, 53),
            "shifts": table(many(text(12, 2), 1, 2), "(early|late|night)"),
            "on_call": text(16, 2),
        }
    ),
    "tender": record(
        {
            "reference": pattern(r"T-20\d{2}-\d{3}"),
            "lots": many(record({"lot": integer(1, 50), "estimate": number(0, 1e8)}), 1, 3),
            "deadline": MOMENT,
            "contact": EMAIL,
            "documents?": LINK,
        }
    ),
    "emergency call": record(
        {
            "at": CLOCK,
            "kind": choice("fire", "medical", "accident", "flood"),
            "where": record({"street": text(24), "house?": pattern(r"\d{1,3}[a-d]?")}),
            "units": many(pattern(r"\d{1,2}/\d{1,2}/\d"), 1, 3),
        }
    ),
    "waste calendar": record(
        {
            "street": text(20),
            "collections": table(many(DATE, 1, 3), "(paper|glass|organic|rest)"),
        }
    ),
    "petition": record(
        {
            "title": text(50, 5),
            "signatures": integer(0, 10000000),
            "goal": choice(1000, 10000, 50000),
            "text": text(),
        }
    ),
    "open data set": record(
        {
            "title": text(40),
            "license": choice("CC0", "CC-BY-4.0", "ODbL"),
            "files": many(
                record(
                    {
                        "format": choice("csv", "json", "parquet"),
                        "url": LINK,
                        "rows?": integer(0),
                    }
                ),
                1,
                2,
            ),
            "updated": MOMENT,
        }
    ),
}
