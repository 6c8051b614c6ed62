"""Maps, weather, houses, energy, farms and the sky."""

from __future__ import annotations

from schemas.parts import (
    CLOCK,
    DATE,
    FLAG,
    LINK,
    MOMENT,
    THIS,
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

POSITION = tuple_of(number(-180, 180), number(-90, 90))

SCHEMAS: dict[str, Schema] = {
    "map feature": record(
        {
            "type": only("Feature"),
            "geometry": one_of(
                record({"type": only("Point"), "coordinates": POSITION}),
                record({"type": only("LineString"), "coordinates": many(POSITION, 2, 3)}),
                record({"type": only("Polygon"), "coordinates": many(many(POSITION, 4, 5), 1, 1)}),
            ),
            "properties": maybe(record({"name": text(20), "height?": number(0, 9000)})),
        }
    ),
    "feature collection": record(
        {
            "type": only("FeatureCollection"),
            "bbox?": tuple_of(number(), number(), number(), number()),
            "features": many(
                record({"id": integer(0), "point": POSITION, "tags": table(text(10))}), 0, 2
            ),
        }
    ),
    "geocoding answer": many(
        record(
            {
                "label": text(40, 2),
                "kind": choice("house", "street", "city", "country"),
                "at": POSITION,
                "score": number(0, 1),
            }
        ),
        1,
        3,
    ),
    "weather now": record(
        {
            "temperature": number(-60, 60),
            "humidity": integer(0, 100),
            "wind": record(
                {
                    "speed": number(0, 100),
                    "from": choice("N", "NE", "E", "SE", "S", "SW", "W", "NW"),
                }
            ),
            "sky": choice("clear", "cloudy", "rain", "snow", "fog"),
        }
    ),
    "weather forecast": record(
        {
            "place": text(20, 1),
            "days": many(
                record(
                    {
                        "date": DATE,
                        "low": integer(-60, 50),
                        "high": integer(-50, 60),
                        "rain_percent": multiple(10, 0, 100),
                    }
                ),
                1,
                3,
            ),
        }
    ),
    "storm warning": record(
        {
            "level": integer(1, 4),
            "regions": many(text(16), 1, 3),
            "valid": record({"from": MOMENT, "until": MOMENT}),
            "advice": text(80),
        }
    ),
    "air quality": record(
        {
            "station": pattern(r"[A-Z]{4}\d{3}"),
            "index": integer(0, 500),
            "pollutants": record(
                {"pm10": number(0, 999), "pm25": number(0, 999), "no2?": number(0, 999)}
            ),
        }
    ),
    "earthquake": record(
        {
            "magnitude": number(0, 10),
            "depth_km": number(0, 700),
            "epicentre": POSITION,
            "at": MOMENT,
            "felt": maybe(integer(0)),
            "tsunami": FLAG,
        }
    ),
    "tide table": record(
        {
            "harbour": text(20),
            "date": DATE,
            "tides": many(
                record({"kind": choice("high", "low"), "at": CLOCK, "metres": number(-2, 16)}), 2, 4
            ),
        }
    ),
    "property listing": record(
        {
            "kind": choice("flat", "house", "plot"),
            "deal": one_of(
                record({"type": only("rent"), "monthly": integer(100, 20000)}),
                record({"type": only("sale"), "price": integer(1000, 50000000)}),
            ),
            "rooms": multiple(1, 1, 20),
            "area_m2": between(5, 5000),
            "energy_class?": pattern("[A-H]"),
        }
    ),
    "floor plan": record(
        {
            "floor": integer(-2, 60),
            "rooms": many(
                record(
                    {
                        "use": choice("kitchen", "bath", "bedroom", "hall"),
                        "walls": many(tuple_of(number(0, 50), number(0, 50)), 3, 4),
                    }
                ),
                1,
                2,
            ),
        }
    ),
    "smart home command": record(
        {
            "device": pattern("(light|blind|heater)/[a-z]{3,10}"),
            "action": one_of(
                record({"do": only("switch"), "on": FLAG}),
                record({"do": only("dim"), "percent": integer(0, 100)}),
                record({"do": only("heat"), "celsius": multiple(1, 5, 30)}),
            ),
        }
    ),
    "smart home scene": {
        **record({"scene": text(20, 1), "when": ref("trigger"), "then": many(text(24), 1, 3)}),
        "$defs": {
            "trigger": any_of(
                record({"time": CLOCK}),
                record({"sensor": choice("door", "motion"), "is": FLAG}),
                record({"any": many(ref("trigger"), 1, 2)}),
            )
        },
    },
    "energy meter": record(
        {
            "meter": pattern(r"1EMH\d{10}"),
            "kwh": number(0, 999999),
            "tariff": choice("day", "night"),
            "quarter_hours?": many(number(0, 50), 4, 4),
        }
    ),
    "solar plant": record(
        {
            "peak_kw": between(0, 1000),
            "tilt": integer(0, 90),
            "facing": integer(0, 359),
            "inverters": many(
                record({"serial": pattern("[0-9A-F]{8}"), "watts": integer(0)}), 1, 2
            ),
        }
    ),
    "water quality": record(
        {
            "spring": text(20),
            "ph": number(0, 14),
            "nitrate": number(0, 500),
            "drinkable": FLAG,
            "sampled": DATE,
        }
    ),
    "field log": record(
        {
            "field": pattern(r"F\d{2}"),
            "crop": choice("wheat", "maize", "barley", "rape"),
            "work": many(
                record({"on": DATE, "task": choice("sow", "spray", "harvest"), "by": text(14)}),
                1,
                3,
            ),
            "yield_t?": number(0, 500),
        }
    ),
    "animal register": record(
        {
            "ear_tag": pattern(r"DE \d{2} \d{3} \d{5}"),
            "species": choice("cow", "pig", "sheep", "goat"),
            "born": DATE,
            "dam": maybe(text(16)),
        }
    ),
    "plant species": record(
        {
            "latin": pattern("[A-Z][a-z]{3,12} [a-z]{3,14}"),
            "common": many(text(20, 2), 1, 3),
            "height_cm": record({"min": integer(1, 10000), "max": integer(1, 10000)}),
            "flowers": many(integer(1, 12), 0, 3),
        }
    ),
    "taxonomy": record(
        {
            "rank": choice("kingdom", "phylum", "class", "order", "family", "genus", "species"),
            "name": text(20, 2),
            "below?": many(THIS, 0, 2),
        }
    ),
    "star": record(
        {
            "name": text(16, 1),
            "spectral": pattern(r"[OBAFGKM]\d(I|II|III|IV|V)"),
            "magnitude": number(-2, 25),
            "distance_ly": between(0, 1e6),
            "planets": many(record({"name": text(16), "days": number(0, 1e5)}), 0, 2),
        }
    ),
    "satellite pass": record(
        {
            "satellite": text(14),
            "rise": record({"at": MOMENT, "azimuth": integer(0, 359)}),
            "max_elevation": integer(0, 90),
            "visible": FLAG,
        }
    ),
    "sensor batch": record(
        {
            "gateway": UUID,
            "readings": many(
                any_of(
                    record({"t": number(-40, 85)}),
                    record({"rh": integer(0, 100)}),
                    record({"lux": integer(0, 120000)}),
                ),
                1,
                5,
            ),
        }
    ),
    "trail": record(
        {
            "name": text(24, 2),
            "difficulty": choice("T1", "T2", "T3", "T4", "T5", "T6"),
            "km": between(0, 300),
            "waypoints": many(record({"name": text(16), "ele": integer(-400, 8849)}), 2, 3),
            "gpx?": LINK,
        }
    ),
    "city facts": record(
        {
            "name": text(20, 1),
            "country": pattern("[A-Z]{2}"),
            "population": integer(0, 40000000),
            "founded": maybe(integer(-3000, 2030)),
            "twins": many(text(16), 0, 3),
        }
    ),
}
