"""Work, calendars, contacts and what people write to each other."""

from __future__ import annotations

from schemas.parts import (
    CLOCK,
    DATE,
    EMAIL,
    FLAG,
    LINK,
    MOMENT,
    SPAN,
    THIS,
    UUID,
    Schema,
    any_of,
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
)

PHONE = pattern(r"\+[1-9]\d{6,13}")
PERSON = record({"name": text(24, 1), "email": EMAIL})

SCHEMAS: dict[str, Schema] = {
    "support ticket": record(
        {
            "id": integer(1, 999999),
            "subject": text(60, 4),
            "priority": choice("low", "normal", "high", "urgent"),
            "status": choice("new", "open", "pending", "solved"),
            "requester": PERSON,
            "tags": many(pattern("[a-z]{2,12}"), 0, 4),
            "assignee": maybe(PERSON),
        }
    ),
    "ticket triage": record(
        {
            "team": choice("billing", "network", "hardware", "accounts"),
            "confidence": number(0, 1),
            "duplicate_of": maybe(integer(1)),
            "summary": text(100),
        }
    ),
    "calendar event": record(
        {
            "uid": UUID,
            "title": text(40, 1),
            "start": MOMENT,
            "end": MOMENT,
            "attendees": many(
                record({"email": EMAIL, "status": choice("yes", "no", "maybe", "none")}), 0, 3
            ),
            "location?": text(30),
        }
    ),
    "recurring meeting": record(
        {
            "title": text(30),
            "rule": one_of(
                record({"every": only("week"), "on": many(choice("mo", "tu", "we", "th"), 1, 3)}),
                record({"every": only("month"), "day": integer(1, 28)}),
            ),
            "at": CLOCK,
            "lasts": SPAN,
        }
    ),
    "free slots": record(
        {
            "date": DATE,
            "zone": choice("UTC", "Europe/Berlin", "America/New_York"),
            "slots": many(
                record({"from": pattern(r"([01]\d|2[0-3]):[0-5]0"), "minutes": choice(15, 30, 60)}),
                1,
                4,
            ),
        }
    ),
    "contact card": record(
        {
            "given": text(16, 1),
            "family": text(20, 1),
            "phones": many(
                record({"kind": choice("home", "work", "mobile"), "number": PHONE}), 0, 2
            ),
            "emails": many(EMAIL, 1, 2),
            "birthday?": DATE,
        }
    ),
    "employee": record(
        {
            "number": pattern(r"E\d{5}"),
            "name": text(30),
            "manager": maybe(pattern(r"E\d{5}")),
            "hired": DATE,
            "salary": record({"amount": integer(20000, 300000), "per": choice("year", "month")}),
            "skills": many(text(16), 1, 4),
        }
    ),
    "organisation chart": record(
        {"role": text(20, 1), "person": text(24), "reports": many(THIS, 0, 2)}
    ),
    "leave request": record(
        {
            "type": choice("holiday", "sick", "parental", "unpaid"),
            "from": DATE,
            "to": DATE,
            "half_day": FLAG,
            "note": maybe(text(50)),
        }
    ),
    "timesheet": record(
        {
            "week": pattern(r"20\d{2}-W([0-4]\d|5[0-3])"),
            "hours": record(
                {day: number(0, 24) for day in ("mon", "tue", "wed", "thu", "fri")},
            ),
            "submitted": FLAG,
        }
    ),
    "job posting": record(
        {
            "title": text(40, 3),
            "remote": choice("no", "partly", "fully"),
            "salary_range?": record({"from": integer(0), "to": integer(0)}),
            "requirements": many(text(40), 2, 4),
            "apply": LINK,
        }
    ),
    "curriculum vitae": record(
        {
            "name": text(30),
            "positions": many(
                record(
                    {
                        "employer": text(24),
                        "from": integer(1970, 2030),
                        "to": maybe(integer(1970, 2030)),
                    }
                ),
                1,
                3,
            ),
            "languages": table(choice("A1", "A2", "B1", "B2", "C1", "C2"), "[a-z]{2}"),
        }
    ),
    "interview feedback": record(
        {
            "candidate": text(24),
            "scores": record(
                {"coding": integer(1, 4), "design": integer(1, 4), "communication": integer(1, 4)}
            ),
            "decision": choice("strong no", "no", "yes", "strong yes"),
            "rationale": text(120, 10),
        }
    ),
    "email message": record(
        {
            "from": EMAIL,
            "to": many(EMAIL, 1, 3),
            "subject": text(60),
            "body": text(160),
            "attachments?": many(record({"name": text(20), "bytes": integer(0)}), 0, 2),
        }
    ),
    "chat message": record(
        {
            "id": pattern("[0-9a-f]{16}"),
            "content": any_of(
                record({"text": text(100)}),
                record({"image": LINK, "alt": text(40)}),
                record({"sticker": choice("wave", "heart", "laugh")}),
            ),
            "reply_to": maybe(pattern("[0-9a-f]{16}")),
        }
    ),
    "comment thread": {
        **record({"post": integer(1), "comments": many(ref("comment"), 1, 2)}),
        "$defs": {
            "comment": record(
                {"author": text(16), "text": text(60), "replies?": many(ref("comment"), 0, 2)}
            )
        },
    },
    "social profile": record(
        {
            "handle": pattern("@[a-z0-9_]{3,15}"),
            "bio": text(80),
            "followers": integer(0),
            "links": table(LINK, "(web|blog|shop)"),
            "verified": FLAG,
        }
    ),
    "poll": record(
        {
            "question": text(60, 5),
            "options": many(record({"label": text(20, 1), "votes": integer(0, 100000)}), 2, 4),
            "closes": maybe(MOMENT),
        }
    ),
    "to-do list": record(
        {
            "list": text(20),
            "items": many(
                record(
                    {"what": text(40, 1), "done": FLAG, "due?": DATE, "priority?": integer(1, 3)}
                ),
                1,
                4,
            ),
        }
    ),
    "meeting minutes": record(
        {
            "date": DATE,
            "present": many(text(20), 2, 4),
            "decisions": many(text(60), 1, 2),
            "actions": many(record({"who": text(20), "what": text(40), "by": DATE}), 0, 2),
        }
    ),
    "address form": record(
        {
            "country": choice("DE", "US", "GB"),
            "address": any_of(
                record({"street": text(24), "plz": pattern(r"\d{5}"), "ort": text(20)}),
                record(
                    {
                        "street": text(24),
                        "city": text(20),
                        "state": pattern("[A-Z]{2}"),
                        "zip": pattern(r"\d{5}(-\d{4})?"),
                    }
                ),
                record(
                    {
                        "street": text(24),
                        "town": text(20),
                        "postcode": pattern(r"[A-Z]{1,2}\d{1,2} \d[A-Z]{2}"),
                    }
                ),
            ),
        }
    ),
    "sentiment": record(
        {
            "label": choice("negative", "neutral", "positive"),
            "score": number(-1, 1),
            "aspects": many(record({"aspect": text(16), "score": number(-1, 1)}), 0, 3),
        }
    ),
    "named entities": many(
        record(
            {
                "text": text(24, 1),
                "kind": choice("person", "place", "organisation", "date"),
                "start": integer(0, 500),
                "end": integer(0, 500),
            }
        ),
        1,
        4,
    ),
    "training record": record(
        {
            "course": text(30),
            "result": one_of(
                record({"passed": only(True), "certificate": UUID}),
                record({"passed": only(False), "retry_after": DATE}),
            ),
        }
    ),
    "family tree": record(
        {
            "name": text(20, 1),
            "born": integer(1800, 2030),
            "mother?": THIS,
            "father?": THIS,
        }
    ),
}
