"""Books, music, films, games, schools and museums."""

from __future__ import annotations

from schemas.parts import (
    CLOCK,
    DATE,
    FLAG,
    LINK,
    MOMENT,
    SPAN,
    THIS,
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

YEAR = integer(1400, 2030)
COLOUR = pattern("#[0-9a-f]{6}")

SCHEMAS: dict[str, Schema] = {
    "book": record(
        {
            "isbn": pattern(r"97[89]-\d{10}"),
            "title": text(40, 1),
            "authors": many(text(20, 2), 1, 3),
            "year": YEAR,
            "pages?": integer(1, 3000),
            "languages": many(choice("en", "de", "fr", "es"), 1, 2),
        }
    ),
    "library loan": record(
        {
            "card": pattern(r"\d{8}"),
            "copies": many(record({"barcode": pattern(r"\d{6}"), "due": DATE}), 1, 3),
            "fines": number(0, 200),
            "blocked": FLAG,
        }
    ),
    "citation": one_of(
        record(
            {
                "type": only("article"),
                "title": text(50),
                "journal": text(24),
                "doi?": pattern(r"10\.\d{4}/[a-z0-9]{4,10}"),
            }
        ),
        record({"type": only("book"), "title": text(50), "publisher": text(24), "year": YEAR}),
        record({"type": only("web"), "url": LINK, "accessed": DATE}),
    ),
    "news article": record(
        {
            "headline": text(60, 10),
            "section": choice("politics", "sport", "culture", "science"),
            "published": MOMENT,
            "paragraphs": many(text(120, 10), 1, 2),
            "paywall": FLAG,
        }
    ),
    "document outline": {
        **record({"title": text(24, 1), "sections": many(ref("section"), 1, 2)}),
        "$defs": {
            "section": record(
                {"heading": text(24, 1), "page": integer(1, 900), "sections?": many(ref("section"))}
            )
        },
    },
    "song": record(
        {
            "title": text(30, 1),
            "artist": text(24, 1),
            "key": pattern("[A-G](#|b)?( minor)?"),
            "bpm": integer(40, 240),
            "length": SPAN,
            "explicit": FLAG,
        }
    ),
    "playlist": record(
        {
            "name": text(24),
            "public": FLAG,
            "tracks": many(record({"title": text(24), "by": text(20), "added": DATE}), 1, 3),
        }
    ),
    "podcast episode": record(
        {
            "season?": integer(1, 50),
            "episode": integer(1, 2000),
            "title": text(40),
            "audio": record({"url": LINK, "mime": choice("audio/mpeg", "audio/ogg")}),
            "chapters": many(record({"at": pattern(r"\d{2}:\d{2}"), "title": text(20)}), 0, 3),
        }
    ),
    "film": record(
        {
            "title": text(30, 1),
            "year": integer(1890, 2030),
            "genres": many(choice("drama", "comedy", "thriller", "horror", "animation"), 1, 3),
            "cast": many(record({"actor": text(20), "role": text(20)}), 1, 3),
            "rating": maybe(number(0, 10)),
        }
    ),
    "television guide": record(
        {
            "channel": text(12, 1),
            "day": DATE,
            "programmes": many(
                record(
                    {"at": CLOCK, "title": text(24), "live?": FLAG, "age": choice(0, 6, 12, 16)}
                ),
                1,
                3,
            ),
        }
    ),
    "subtitle track": record(
        {
            "language": pattern("[a-z]{2}(-[A-Z]{2})?"),
            "cues": many(
                record(
                    {
                        "from": number(0, 10000),
                        "to": number(0, 10000),
                        "text": text(40, 1),
                    }
                ),
                1,
                3,
            ),
        }
    ),
    "photo metadata": record(
        {
            "camera": text(20),
            "exposure": pattern(r"1/\d{2,4}"),
            "aperture": between(0.9, 32),
            "iso": choice(100, 200, 400, 800, 1600),
            "position?": tuple_of(number(-90, 90), number(-180, 180)),
        }
    ),
    "colour theme": record(
        {
            "name": text(16, 1),
            "dark": FLAG,
            "colours": record({"text": COLOUR, "background": COLOUR, "accent?": COLOUR}),
        }
    ),
    "vector drawing": record(
        {
            "size": tuple_of(integer(1, 1000), integer(1, 1000)),
            "shapes": many(
                one_of(
                    record({"shape": only("circle"), "r": between(0, 500), "fill": COLOUR}),
                    record({"shape": only("rect"), "w": integer(1), "h": integer(1)}),
                    record(
                        {
                            "shape": only("line"),
                            "points": many(tuple_of(number(0, 1000), number(0, 1000)), 2, 3),
                        }
                    ),
                ),
                1,
                3,
            ),
        }
    ),
    "page layout": record(
        {
            "kind": choice("row", "column", "text", "button"),
            "label?": text(20),
            "children?": many(THIS, 0, 3),
        }
    ),
    "web form": record(
        {
            "title": text(24),
            "fields": many(
                record(
                    {
                        "name": pattern("[a-z_]{2,12}"),
                        "input": choice("text", "number", "date", "checkbox"),
                        "required": FLAG,
                        "default?": any_of(text(12), number(), FLAG),
                    }
                ),
                1,
                3,
            ),
        }
    ),
    "game character": record(
        {
            "name": text(16, 2),
            "class": choice("mage", "rogue", "knight", "bard"),
            "level": integer(1, 60),
            "stats": record(
                {s: integer(3, 20) for s in ("str", "dex", "int", "cha")},
            ),
            "inventory": table(integer(1, 99), "[a-z]{3,10}"),
        }
    ),
    "game state": record(
        {
            "board": many(many(choice("x", "o", None), 3, 3), 3, 3),
            "turn": choice("x", "o"),
            "winner": maybe(choice("x", "o")),
        }
    ),
    "chess game": record(
        {
            "white": text(16),
            "black": text(16),
            "moves": many(pattern("[KQRBN]?[a-h]?x?[a-h][1-8]"), 2, 8),
            "result": choice("1-0", "0-1", "1/2-1/2", "*"),
        }
    ),
    "quiz": record(
        {
            "topic": text(20, 2),
            "questions": many(
                record(
                    {
                        "ask": text(60, 5),
                        "answers": many(text(20, 1), 2, 4),
                        "right": integer(0, 3),
                    }
                ),
                1,
                2,
            ),
        }
    ),
    "school report": record(
        {
            "pupil": text(24),
            "term": choice("winter", "summer"),
            "marks": table(integer(1, 6), "(maths|english|biology|history|art)"),
            "absent_days": integer(0, 90),
            "remark": maybe(text(60)),
        }
    ),
    "course catalogue": many(
        record(
            {
                "code": pattern(r"[A-Z]{2,4} \d{3}"),
                "title": text(30, 3),
                "credits": choice(3, 6, 9, 12),
                "needs": many(pattern(r"[A-Z]{2,4} \d{3}"), 0, 2),
            }
        ),
        1,
        3,
    ),
    "flash cards": record(
        {
            "deck": text(20, 1),
            "cards": many(
                record({"front": text(30, 1), "back": text(40, 1), "ease": number(1, 3)}), 1, 3
            ),
        }
    ),
    "museum object": record(
        {
            "inventory": pattern(r"\d{4}\.\d{1,3}[a-z]?"),
            "title": text(40),
            "made": any_of(
                integer(-5000, 2030), record({"from": integer(-5000), "to": integer(-5000, 2030)})
            ),
            "materials": many(choice("oil", "bronze", "wood", "paper", "glass"), 1, 3),
            "on_display": FLAG,
        }
    ),
    "concert ticket": record(
        {
            "id": UUID,
            "event": text(30, 2),
            "doors": MOMENT,
            "seat": any_of(
                only("standing"), record({"row": pattern("[A-Z]"), "number": integer(1, 60)})
            ),
            "price": number(0, 500),
        }
    ),
}
