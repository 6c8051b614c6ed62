"""Tasks for a model with functions, and the calls that solve them.

Kinds as the Berkeley leaderboard has them: `single` offers one function, `multiple` several of
which one is right, `parallel` needs more than one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["single", "multiple", "parallel"]


@dataclass(frozen=True)
class Either:
    """Any of these values will do; with `optional` the argument may be left out, too."""

    values: tuple[Any, ...]
    optional: bool = False


@dataclass(frozen=True)
class Call:
    """A call that is expected. A plain value is the only one that will do."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Task:
    kind: Kind
    question: str
    offered: list[str]
    expected: list[Call]


def call(name: str, /, **arguments: Any) -> Call:
    return Call(name, arguments)


def either(*values: Any) -> Either:
    return Either(values)


def may(*values: Any) -> Either:
    """May be left out."""
    return Either(values, optional=True)


ANY = object()
"""Whatever it says."""


def single(question: str, expected: Call) -> Task:
    return Task("single", question, [expected.name], [expected])


def multiple(question: str, others: str, expected: Call) -> Task:
    """others: names of functions that are offered before and behind the right one."""
    names = others.split()
    middle = len(question) % (len(names) + 1)
    return Task("multiple", question, [*names[:middle], expected.name, *names[middle:]], [expected])


def parallel(question: str, *expected: Call, others: str = "") -> Task:
    names = dict.fromkeys([call.name for call in expected] + others.split())
    return Task("parallel", question, list(names), list(expected))


SINGLE = [
    single(
        "What is the weather like in Berlin right now, in celsius?",
        call("get_weather", city=either("Berlin", "Berlin, Germany"), unit=may("celsius")),
    ),
    single(
        "Is it raining in Lisbon at the moment?",
        call("get_weather", city=either("Lisbon", "Lisbon, Portugal"), unit=may(ANY)),
    ),
    single(
        "Give me the forecast for Oslo for the next 5 days.",
        call("get_forecast", city=either("Oslo", "Oslo, Norway"), days=5),
    ),
    single(
        "How much is 250 euros in US dollars?",
        call("convert_currency", amount=250, source="EUR", target="USD"),
    ),
    single(
        "Convert 1200 Japanese yen (JPY) to British pounds (GBP).",
        call("convert_currency", amount=1200, source="JPY", target="GBP"),
    ),
    single(
        "How many kilometres are 26.2 miles?",
        call("convert_length", value=26.2, source="mile", target="km"),
    ),
    single(
        "Convert 98.6 degrees fahrenheit to celsius.",
        call("convert_temperature", value=98.6, source="fahrenheit", target="celsius"),
    ),
    single(
        "Add up 17, 4, 32 and 9.",
        call("add_numbers", numbers=[17, 4, 32, 9]),
    ),
    single("What is 123 times 456?", call("multiply", a=either(123, 456), b=either(456, 123))),
    single("Compute the factorial of 12.", call("factorial", n=12)),
    single(
        "What is the greatest common divisor of 84 and 36?",
        call("greatest_common_divisor", a=either(84, 36), b=either(36, 84)),
    ),
    single("Is 7919 a prime number?", call("is_prime", n=7919)),
    single("What is the area of a circle with a radius of 7.5 m?", call("circle_area", radius=7.5)),
    single(
        "Find the area of a triangle with base 10 and height 4.",
        call("triangle_area", base=10, height=4),
    ),
    single(
        "I save 5000 at 3 percent interest for 10 years. What will it be worth?",
        call("compound_interest", principal=5000, rate_percent=3, years=10),
    ),
    single(
        "What is the monthly payment of a loan of 200000 at 4.5 percent over 30 years?",
        call("monthly_payment", amount=200000, rate_percent=4.5, years=30),
    ),
    single(
        "Calculate the BMI of somebody who weighs 70 kg and is 175 cm tall.",
        call("body_mass_index", weight_kg=70, height_cm=175),
    ),
    single(
        "Send an email to anna@example.com with the subject 'Lunch on Friday'.",
        call("send_email", to="anna@example.com", subject="Lunch on Friday", body=may(ANY)),
    ),
    single(
        "Text the number 4915112345678 this message: I am late.",
        call("send_sms", number=either("4915112345678", "+4915112345678"), message="I am late."),
    ),
    single(
        "Put 'Dentist' into my calendar on 2025-03-14 at 09:30.",
        call("create_event", title="Dentist", date="2025-03-14", start="09:30", minutes=may(ANY)),
    ),
    single("Delete the event with id 4711.", call("delete_event", event_id=4711)),
    single("Wake me up at 06:45.", call("set_alarm", time="06:45")),
    single("Set a timer for 25 minutes.", call("set_timer", minutes=25)),
    single(
        "Add the task 'Water the plants' with high priority to my list.",
        call("create_task", title="Water the plants", priority="high"),
    ),
    single(
        "Find flights from Paris to Rome on 2025-06-01.",
        call(
            "search_flights",
            origin=either("Paris", "CDG"),
            destination=either("Rome", "FCO"),
            date="2025-06-01",
            cabin=may("economy"),
        ),
    ),
    single(
        "Book a hotel in Vienna from 2025-09-10 for 3 nights for 2 guests.",
        call("book_hotel", city="Vienna", check_in="2025-09-10", nights=3, guests=2),
    ),
    single(
        "I need a van in Madrid for 4 days.",
        call("rent_car", **{"city": "Madrid", "days": 4, "class": "van"}),
    ),
    single(
        "How do I get from Central Park to Times Square on foot?",
        call("get_directions", start="Central Park", end="Times Square", by="foot"),
    ),
    single(
        "Show me Italian restaurants in Munich.",
        call("find_restaurants", city="Munich", cuisine="Italian", max_results=may(ANY)),
    ),
    single(
        "I would like to order two large salami pizzas.",
        call("order_pizza", kind="salami", size="large", count=2),
    ),
    single(
        "What is the price of the share with the symbol AAPL?",
        call("get_stock_price", symbol="AAPL"),
    ),
    single("Buy 15 shares of NVDA.", call("buy_shares", symbol="NVDA", count=15)),
    single(
        "Get me the 3 latest articles about climate change.",
        call("get_news", topic="climate change", limit=3),
    ),
    single(
        "Play something by Miles Davis.", call("play_music", artist="Miles Davis", shuffle=may(ANY))
    ),
    single("Turn the volume to 40 percent.", call("set_volume", percent=40)),
    single("Switch off the light in the kitchen.", call("switch_light", room="kitchen", on=False)),
    single(
        "Make it 21.5 degrees in the bedroom.",
        call("set_thermostat", room="bedroom", celsius=21.5),
    ),
    single(
        "Translate 'Good morning' to Spanish.",
        call("translate", text="Good morning", language=either("Spanish", "es")),
    ),
    single("What does the word 'ephemeral' mean?", call("define_word", word="ephemeral")),
    single(
        "How many days are there from 2024-01-01 to 2024-12-24?",
        call("days_between", start="2024-01-01", end="2024-12-24"),
    ),
]

MULTIPLE = [
    multiple(
        "What's the temperature outside in Madrid?",
        "get_forecast local_time get_population",
        call("get_weather", city=either("Madrid", "Madrid, Spain"), unit=may(ANY)),
    ),
    multiple(
        "What will the weather be like in Cairo over the next 3 days?",
        "get_weather local_time",
        call("get_forecast", city=either("Cairo", "Cairo, Egypt"), days=3),
    ),
    multiple(
        "What time is it in Tokyo?",
        "get_weather set_alarm set_timer",
        call("local_time", city=either("Tokyo", "Tokyo, Japan")),
    ),
    multiple(
        "How many people live in Canada?",
        "get_capital get_weather get_news",
        call("get_population", place="Canada", year=may(ANY)),
    ),
    multiple(
        "What is the capital of Australia?",
        "get_population define_word translate",
        call("get_capital", country="Australia"),
    ),
    multiple(
        "Where is my order number 88123?",
        "cancel_order refund_order create_user",
        call("lookup_order", order_id=88123),
    ),
    multiple(
        "Please cancel order 5567.",
        "lookup_order refund_order delete_event",
        call("cancel_order", order_id=5567, reason=may(ANY)),
    ),
    multiple(
        "Refund 19.99 for order 1042.",
        "lookup_order cancel_order convert_currency",
        call("refund_order", order_id=1042, amount=19.99),
    ),
    multiple(
        "Create an account for Maria Lopez, maria@example.org, as an editor.",
        "send_email create_task create_event",
        call("create_user", name="Maria Lopez", email="maria@example.org", role="editor"),
    ),
    multiple(
        "Delete the file /tmp/old.log.",
        "copy_file list_directory delete_event",
        call("delete_file", path="/tmp/old.log"),
    ),
    multiple(
        "Copy notes.txt to backup.txt.",
        "delete_file list_directory send_email",
        call("copy_file", source="notes.txt", target="backup.txt"),
    ),
    multiple(
        "Which files are in /var/log?",
        "delete_file copy_file run_query",
        call("list_directory", path=either("/var/log", "/var/log/"), hidden=may(ANY)),
    ),
    multiple(
        "Restart nginx on staging.",
        "list_directory run_query set_alarm",
        call("restart_service", service="nginx", environment="staging"),
    ),
    multiple(
        "How many rows are in the table users?",
        "count_words list_directory create_user",
        call("run_query", table="users", column=may(), equals=may()),
    ),
    multiple(
        "Roll 3 dice with 6 sides each.",
        "random_number factorial multiply",
        call("roll_dice", count=3, sides=6),
    ),
    multiple(
        "Give me a random number between 1 and 50.",
        "roll_dice add_numbers is_prime",
        call("random_number", least=1, most=50),
    ),
    multiple(
        "What is 6 factorial?",
        "multiply add_numbers is_prime greatest_common_divisor",
        call("factorial", n=6),
    ),
    multiple(
        "Is 221 prime?",
        "factorial greatest_common_divisor random_number",
        call("is_prime", n=221),
    ),
    multiple(
        "What is the product of 19 and 21?",
        "add_numbers factorial greatest_common_divisor",
        call("multiply", a=either(19, 21), b=either(21, 19)),
    ),
    multiple(
        "What is the sum of 1.5, 2.5 and 10?",
        "multiply factorial circle_area",
        call("add_numbers", numbers=[1.5, 2.5, 10]),
    ),
    multiple(
        "What is the perimeter of a rectangle 8 wide and 3 high?",
        "triangle_area circle_area multiply",
        call("rectangle_perimeter", width=8, height=3),
    ),
    multiple(
        "A triangle has a base of 6 and a height of 9. What is its area?",
        "rectangle_perimeter circle_area multiply",
        call("triangle_area", base=6, height=9),
    ),
    multiple(
        "How much would I pay each month for 15000 borrowed at 6 percent for 5 years?",
        "compound_interest convert_currency add_numbers",
        call("monthly_payment", amount=15000, rate_percent=6, years=5),
    ),
    multiple(
        "How much will 800 grow to in 7 years at 2.5 percent a year?",
        "monthly_payment convert_currency buy_shares",
        call("compound_interest", principal=800, rate_percent=2.5, years=7),
    ),
    multiple(
        "How many feet are 10 metres?",
        "convert_temperature convert_currency multiply",
        call("convert_length", value=10, source="m", target="foot"),
    ),
    multiple(
        "What is 300 kelvin in celsius?",
        "convert_length convert_currency get_weather",
        call("convert_temperature", value=300, source="kelvin", target="celsius"),
    ),
    multiple(
        "What are 99 Swiss francs (CHF) in euros (EUR)?",
        "convert_length get_stock_price convert_temperature",
        call("convert_currency", amount=99, source="CHF", target="EUR"),
    ),
    multiple(
        "How is the share TSLA doing?",
        "buy_shares get_news convert_currency",
        call("get_stock_price", symbol="TSLA"),
    ),
    multiple(
        "Any news about football?",
        "play_music define_word get_weather",
        call("get_news", topic="football", limit=may(ANY)),
    ),
    multiple(
        "Play some Mozart on shuffle.",
        "set_volume get_news set_alarm",
        call("play_music", artist=either("Mozart", "Wolfgang Amadeus Mozart"), shuffle=True),
    ),
    multiple(
        "Turn on the light in the hall.",
        "set_thermostat set_volume set_alarm",
        call("switch_light", room=either("hall", "the hall"), on=True),
    ),
    multiple(
        "Remind me in 10 minutes with a countdown.",
        "set_alarm create_event local_time",
        call("set_timer", minutes=10),
    ),
    multiple(
        "Set an alarm for half past seven in the morning.",
        "set_timer create_event local_time",
        call("set_alarm", time="07:30"),
    ),
    multiple(
        "Translate 'thank you' into German.",
        "define_word count_words send_sms",
        call("translate", text="thank you", language=either("German", "de")),
    ),
    multiple(
        "How many words are in 'the quick brown fox'?",
        "translate define_word run_query",
        call("count_words", text="the quick brown fox"),
    ),
]

PARALLEL = [
    parallel(
        "What is the weather in Paris and in London?",
        call("get_weather", city=either("Paris", "Paris, France"), unit=may(ANY)),
        call("get_weather", city=either("London", "London, UK"), unit=may(ANY)),
    ),
    parallel(
        "Tell me the capitals of Peru, Chile and Brazil.",
        call("get_capital", country="Peru"),
        call("get_capital", country="Chile"),
        call("get_capital", country="Brazil"),
    ),
    parallel(
        "Get the stock prices of AAPL and GOOG.",
        call("get_stock_price", symbol="AAPL"),
        call("get_stock_price", symbol="GOOG"),
    ),
    parallel(
        "Compute the factorials of 5 and of 7.",
        call("factorial", n=5),
        call("factorial", n=7),
    ),
    parallel(
        "Are 97 and 91 prime?",
        call("is_prime", n=97),
        call("is_prime", n=91),
    ),
    parallel(
        "Switch on the light in the kitchen and in the garage.",
        call("switch_light", room="kitchen", on=True),
        call("switch_light", room="garage", on=True),
    ),
    parallel(
        "Set alarms for 06:00 and 06:15.",
        call("set_alarm", time="06:00"),
        call("set_alarm", time="06:15"),
    ),
    parallel(
        "What time is it in Sydney and in New York?",
        call("local_time", city=either("Sydney", "Sydney, Australia")),
        call("local_time", city=either("New York", "New York City")),
    ),
    parallel(
        "Translate 'hello' to French and to Italian.",
        call("translate", text="hello", language=either("French", "fr")),
        call("translate", text="hello", language=either("Italian", "it")),
    ),
    parallel(
        "Convert 100 US dollars (USD) to euros (EUR) and to yen (JPY).",
        call("convert_currency", amount=100, source="USD", target="EUR"),
        call("convert_currency", amount=100, source="USD", target="JPY"),
    ),
    parallel(
        "Find the areas of circles with radius 2 and radius 3.",
        call("circle_area", radius=2),
        call("circle_area", radius=3),
    ),
    parallel(
        "Define the words 'lucid' and 'arcane'.",
        call("define_word", word="lucid"),
        call("define_word", word="arcane"),
    ),
    parallel(
        "Delete the files a.txt, b.txt and c.txt.",
        call("delete_file", path="a.txt"),
        call("delete_file", path="b.txt"),
        call("delete_file", path="c.txt"),
    ),
    parallel(
        "Order one small margherita and three large funghi pizzas.",
        call("order_pizza", kind="margherita", size="small", count=1),
        call("order_pizza", kind="funghi", size="large", count=3),
    ),
    parallel(
        "Buy 10 shares of IBM and 20 shares of SAP.",
        call("buy_shares", symbol="IBM", count=10),
        call("buy_shares", symbol="SAP", count=20),
    ),
    parallel(
        "What is the weather in Rome, and what time is it there?",
        call("get_weather", city=either("Rome", "Rome, Italy"), unit=may(ANY)),
        call("local_time", city=either("Rome", "Rome, Italy")),
    ),
    parallel(
        "Turn the volume to 20 percent and play Adele.",
        call("set_volume", percent=20),
        call("play_music", artist="Adele", shuffle=may(ANY)),
    ),
    parallel(
        "Cancel order 77 and refund 30 for order 78.",
        call("cancel_order", order_id=77, reason=may(ANY)),
        call("refund_order", order_id=78, amount=30),
    ),
    parallel(
        "Set the living room to 22 degrees and switch the light there off.",
        call("set_thermostat", room="living room", celsius=22),
        call("switch_light", room="living room", on=False),
    ),
    parallel(
        "Multiply 12 by 12, and compute the greatest common divisor of 48 and 18.",
        call("multiply", a=12, b=12),
        call("greatest_common_divisor", a=either(48, 18), b=either(18, 48)),
    ),
    parallel(
        "What is the capital of Kenya, and how many people live in Kenya?",
        call("get_capital", country="Kenya"),
        call("get_population", place="Kenya", year=may(ANY)),
        others="get_weather",
    ),
    parallel(
        "Where are the orders 301 and 302?",
        call("lookup_order", order_id=301),
        call("lookup_order", order_id=302),
        others="cancel_order refund_order",
    ),
    parallel(
        "Show me the 5 day forecast for Bern and the 7 day forecast for Graz.",
        call("get_forecast", city=either("Bern", "Bern, Switzerland"), days=5),
        call("get_forecast", city=either("Graz", "Graz, Austria"), days=7),
        others="get_weather",
    ),
    parallel(
        "Restart redis on production and postgres on staging.",
        call("restart_service", service="redis", environment="production"),
        call("restart_service", service="postgres", environment="staging"),
        others="run_query",
    ),
    parallel(
        "Find Thai restaurants in Bonn and Greek restaurants in Ulm.",
        call("find_restaurants", city="Bonn", cuisine="Thai", max_results=may(ANY)),
        call("find_restaurants", city="Ulm", cuisine="Greek", max_results=may(ANY)),
        others="order_pizza get_directions",
    ),
    parallel(
        "Add the tasks 'Buy milk' and 'Call grandma' to my list.",
        call("create_task", title="Buy milk", priority=may("normal")),
        call("create_task", title="Call grandma", priority=may("normal")),
        others="create_event",
    ),
    parallel(
        "How many kilometres are 5 miles, and what is 20 celsius in fahrenheit?",
        call("convert_length", value=5, source="mile", target="km"),
        call("convert_temperature", value=20, source="celsius", target="fahrenheit"),
        others="multiply",
    ),
    parallel(
        "Roll two dice with 20 sides, and give me a random number from 5 to 9.",
        call("roll_dice", count=2, sides=20),
        call("random_number", least=5, most=9),
        others="add_numbers",
    ),
    parallel(
        "Set a timer for 5 minutes and an alarm for 18:00.",
        call("set_timer", minutes=5),
        call("set_alarm", time="18:00"),
        others="create_event",
    ),
    parallel(
        "What is the area of a triangle with base 3 and height 5, and the perimeter of a rectangle"
        " 2 wide and 4 high?",
        call("triangle_area", base=3, height=5),
        call("rectangle_perimeter", width=2, height=4),
        others="circle_area",
    ),
]

TASKS = [*SINGLE, *MULTIPLE, *PARALLEL]
