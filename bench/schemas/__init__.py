"""Two hundred schemas of the sort that APIs have, by the name of what they describe."""

from __future__ import annotations

from schemas import commerce, health, media, people, places, public, software, travel
from schemas.parts import Schema

SCHEMAS: dict[str, Schema] = {
    name: schema
    for room in (commerce, health, media, people, places, public, software, travel)
    for name, schema in room.SCHEMAS.items()
}
