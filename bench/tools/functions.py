"""The functions that tasks offer to a model: name, what it does, and its parameters."""

from __future__ import annotations

from typing import Any

from schemas.parts import DATE, FLAG, Schema, choice, integer, many, number, pattern, record, text


def told(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


_FUNCTIONS: dict[str, tuple[str, dict[str, Schema]]] = {
    "get_weather": (
        "Current weather of a city.",
        {"city": told(text(), "Name of the city."), "unit?": choice("celsius", "fahrenheit")},
    ),
    "get_forecast": (
        "Weather forecast of a city for the next days.",
        {"city": text(), "days": told(integer(1, 14), "How many days ahead.")},
    ),
    "convert_currency": (
        "Convert an amount of money from one currency to another.",
        {
            "amount": number(0),
            "source": told(pattern("[A-Z]{3}"), "ISO code of the currency, such as EUR."),
            "target": told(pattern("[A-Z]{3}"), "ISO code of the currency, such as USD."),
        },
    ),
    "convert_length": (
        "Convert a length between units.",
        {
            "value": number(),
            "source": choice("m", "km", "mile", "foot", "inch"),
            "target": choice("m", "km", "mile", "foot", "inch"),
        },
    ),
    "convert_temperature": (
        "Convert a temperature between units.",
        {
            "value": number(),
            "source": choice("celsius", "fahrenheit", "kelvin"),
            "target": choice("celsius", "fahrenheit", "kelvin"),
        },
    ),
    "add_numbers": ("Sum of numbers.", {"numbers": many(number(), 2)}),
    "multiply": ("Product of two numbers.", {"a": number(), "b": number()}),
    "factorial": ("Factorial of an integer.", {"n": integer(0, 100)}),
    "greatest_common_divisor": (
        "Greatest common divisor of two integers.",
        {"a": integer(1), "b": integer(1)},
    ),
    "is_prime": ("Whether an integer is a prime number.", {"n": integer(1)}),
    "circle_area": ("Area of a circle.", {"radius": told(number(0), "In metres.")}),
    "triangle_area": (
        "Area of a triangle.",
        {"base": number(0), "height": number(0)},
    ),
    "rectangle_perimeter": (
        "Perimeter of a rectangle.",
        {"width": number(0), "height": number(0)},
    ),
    "compound_interest": (
        "Value of savings after some years.",
        {
            "principal": told(number(0), "What is paid in."),
            "rate_percent": told(number(0, 100), "Interest a year, in percent."),
            "years": integer(1, 100),
        },
    ),
    "monthly_payment": (
        "Monthly payment of a loan.",
        {"amount": number(0), "rate_percent": number(0, 100), "years": integer(1, 50)},
    ),
    "body_mass_index": (
        "Body mass index of a person.",
        {"weight_kg": number(1, 500), "height_cm": number(30, 280)},
    ),
    "send_email": (
        "Send an email.",
        {"to": told(text(), "Address of the recipient."), "subject": text(), "body?": text()},
    ),
    "send_sms": (
        "Send a text message to a phone.",
        {"number": told(pattern(r"\+?\d{6,15}"), "Phone number, digits only."), "message": text()},
    ),
    "create_event": (
        "Put an event into the calendar.",
        {
            "title": text(),
            "date": told(DATE, "As YYYY-MM-DD."),
            "start": told(pattern(r"([01]\d|2[0-3]):[0-5]\d"), "As HH:MM, 24 hours."),
            "minutes?": told(integer(5, 1440), "How long it takes."),
        },
    ),
    "delete_event": (
        "Remove an event from the calendar.",
        {"event_id": integer(1)},
    ),
    "set_alarm": (
        "Set an alarm clock.",
        {"time": told(pattern(r"([01]\d|2[0-3]):[0-5]\d"), "As HH:MM, 24 hours.")},
    ),
    "set_timer": ("Start a countdown.", {"minutes": integer(1, 1440)}),
    "create_task": (
        "Add a task to the to-do list.",
        {"title": text(), "priority?": choice("low", "normal", "high")},
    ),
    "search_flights": (
        "Find flights between two cities on a day.",
        {
            "origin": text(),
            "destination": text(),
            "date": told(DATE, "As YYYY-MM-DD."),
            "cabin?": choice("economy", "business", "first"),
        },
    ),
    "book_hotel": (
        "Book a hotel room in a city.",
        {
            "city": text(),
            "check_in": told(DATE, "As YYYY-MM-DD."),
            "nights": integer(1, 60),
            "guests?": integer(1, 10),
        },
    ),
    "rent_car": (
        "Rent a car in a city.",
        {"city": text(), "days": integer(1, 90), "class": choice("small", "medium", "van")},
    ),
    "get_directions": (
        "Route from one place to another.",
        {"start": text(), "end": text(), "by": choice("car", "bicycle", "foot", "train")},
    ),
    "find_restaurants": (
        "Restaurants of a cuisine in a city.",
        {"city": text(), "cuisine": text(), "max_results?": integer(1, 50)},
    ),
    "order_pizza": (
        "Order pizzas for delivery.",
        {
            "kind": choice("margherita", "salami", "funghi", "hawaii"),
            "size": choice("small", "medium", "large"),
            "count": integer(1, 20),
        },
    ),
    "get_stock_price": (
        "Latest price of a share.",
        {"symbol": told(text(), "Ticker symbol, such as MSFT.")},
    ),
    "buy_shares": (
        "Buy shares at the market.",
        {"symbol": told(text(), "Ticker symbol."), "count": integer(1)},
    ),
    "get_news": (
        "Latest news about a topic.",
        {"topic": text(), "limit?": told(integer(1, 20), "How many articles.")},
    ),
    "play_music": (
        "Play music of an artist.",
        {"artist": text(), "shuffle?": FLAG},
    ),
    "set_volume": ("Set the volume.", {"percent": integer(0, 100)}),
    "switch_light": (
        "Switch the light of a room on or off.",
        {"room": text(), "on": FLAG},
    ),
    "set_thermostat": (
        "Set the temperature of a room.",
        {"room": text(), "celsius": number(5, 30)},
    ),
    "translate": (
        "Translate a text.",
        {"text": text(), "language": told(text(), "The language to translate to, in English.")},
    ),
    "define_word": ("Definition of a word from the dictionary.", {"word": text()}),
    "count_words": ("How many words a text has.", {"text": text()}),
    "get_capital": ("Capital of a country.", {"country": text()}),
    "get_population": (
        "Population of a country or city.",
        {"place": text(), "year?": integer(1800, 2030)},
    ),
    "local_time": ("Local time in a city.", {"city": text()}),
    "days_between": (
        "Days from one date to another.",
        {"start": told(DATE, "As YYYY-MM-DD."), "end": told(DATE, "As YYYY-MM-DD.")},
    ),
    "lookup_order": (
        "State of a customer's order.",
        {"order_id": told(integer(1), "Number of the order.")},
    ),
    "cancel_order": (
        "Cancel a customer's order.",
        {"order_id": integer(1), "reason?": text()},
    ),
    "refund_order": (
        "Pay money of an order back.",
        {"order_id": integer(1), "amount": number(0)},
    ),
    "create_user": (
        "Create a user account.",
        {"name": text(), "email": text(), "role": choice("admin", "editor", "viewer")},
    ),
    "delete_file": ("Delete a file.", {"path": text()}),
    "copy_file": ("Copy a file.", {"source": text(), "target": text()}),
    "list_directory": ("List the files of a folder.", {"path": text(), "hidden?": FLAG}),
    "run_query": (
        "Count the rows of a database table, with a filter if wanted.",
        {"table": text(), "column?": text(), "equals?": text()},
    ),
    "restart_service": (
        "Restart a service on a server.",
        {"service": text(), "environment": choice("production", "staging")},
    ),
    "roll_dice": ("Roll dice.", {"count": integer(1, 100), "sides": integer(2, 100)}),
    "random_number": ("A random integer.", {"least": integer(), "most": integer()}),
}


def tools(names: list[str]) -> list[dict[str, Any]]:
    """The functions as a request carries them."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": _FUNCTIONS[name][0],
                "parameters": parameters(name),
            },
        }
        for name in names
    ]


def parameters(name: str) -> Schema:
    return record(_FUNCTIONS[name][1])
