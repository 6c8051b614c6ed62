"""The official client's `parse()` and its streaming twin with pydantic models.

What the smallest model says is of no interest here; that it is what the types say is.
"""

from __future__ import annotations

import datetime
import json
from enum import StrEnum
from typing import Annotated, Any, Literal

import openai
import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel, Field

from .conftest import Service

Short = Annotated[str, Field(max_length=16)]


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Pizza(BaseModel):
    kind: Literal["pizza"]
    toppings: Annotated[list[Short], Field(min_length=1, max_length=3)]
    size: Size


class Drink(BaseModel):
    kind: Literal["drink"]
    name: Short
    litres: Annotated[float, Field(ge=0, le=2)]


class Order(BaseModel):
    customer: Short
    day: datetime.date
    item: Pizza | Drink
    note: Short | None
    count: Annotated[int, Field(ge=1, le=20)]


class Folder(BaseModel):
    name: Annotated[str, Field(max_length=8)]
    folders: Annotated[list[Folder], Field(max_length=1)]


class GetWeather(BaseModel):
    """Weather of a city."""

    city: Short
    unit: Literal["celsius", "fahrenheit"]


class SetTimer(BaseModel):
    """Set a timer."""

    minutes: Annotated[int, Field(ge=1, le=60)]


TOOLS = [pydantic_function_tool(GetWeather), pydantic_function_tool(SetTimer)]


def asked(service: Service, what: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": what}]
    return {"model": service.model, "messages": messages, "max_tokens": 200, **fields}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_is_parsed(service: Service, temperature: float) -> None:
    request = asked(service, "Order a pizza.", temperature=temperature, seed=1)
    answer = service.client().chat.completions.parse(**request, response_format=Order)
    assert answer.choices[0].finish_reason == "stop"
    order = answer.choices[0].message.parsed
    assert isinstance(order, Order)
    assert Order.model_validate_json(answer.choices[0].message.content or "") == order


def test_choices_are_parsed_each(service: Service) -> None:
    request = asked(service, "Order a drink.", temperature=1, seed=2, n=3)
    answer = service.client().chat.completions.parse(**request, response_format=Order)
    orders = [choice.message.parsed for choice in answer.choices]
    assert all(isinstance(order, Order) for order in orders)
    assert len({choice.message.content for choice in answer.choices}) > 1


def test_a_type_of_itself(coder: Service) -> None:
    request = asked(coder, "An example of a folder with a folder in it.", temperature=0)
    answer = coder.client().chat.completions.parse(**request, response_format=Folder)
    assert isinstance(answer.choices[0].message.parsed, Folder)


def test_a_stream_is_parsed_and_equals_the_whole(service: Service) -> None:
    request = asked(service, "Order a pizza.", temperature=0)
    whole = service.client().chat.completions.parse(**request, response_format=Order)
    with service.client().chat.completions.stream(**request, response_format=Order) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == whole.choices[0].message.parsed
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert len(deltas) > 5
    assert "".join(deltas) == whole.choices[0].message.content


def test_an_answer_that_was_cut_is_no_document(service: Service) -> None:
    request = asked(service, "Order a pizza.") | {"max_tokens": 4}
    with pytest.raises(openai.LengthFinishReasonError) as cut:
        service.client().chat.completions.parse(**request, response_format=Order)
    assert cut.value.completion.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    "tool_choice", ["required", {"type": "function", "function": {"name": "GetWeather"}}]
)
def test_arguments_are_parsed(service: Service, tool_choice: Any) -> None:
    request = asked(service, "Weather in Rome?", temperature=0, tool_choice=tool_choice)
    answer = service.client().chat.completions.parse(**request, tools=TOOLS)
    calls = answer.choices[0].message.tool_calls or []
    assert len(calls) >= 1
    assert answer.choices[0].finish_reason == (
        "tool_calls" if tool_choice == "required" else "stop"
    )
    for call in calls:
        assert isinstance(call.function.parsed_arguments, GetWeather | SetTimer)
        assert type(call.function.parsed_arguments).__name__ == call.function.name
    if tool_choice != "required":
        assert calls[0].function.name == "GetWeather"


def test_streamed_arguments_are_parsed_and_equal_the_whole(service: Service) -> None:
    request = asked(service, "Weather in Rome?", temperature=0, tool_choice="required")
    whole = service.client().chat.completions.parse(**request, tools=TOOLS)
    with service.client().chat.completions.stream(**request, tools=TOOLS) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    expected = [call.function for call in whole.choices[0].message.tool_calls or []]
    got = [call.function for call in final.choices[0].message.tool_calls or []]
    assert got == expected
    pieces = [e.arguments_delta for e in events if e.type == "tool_calls.function.arguments.delta"]
    assert "".join(pieces) == "".join(function.arguments for function in expected)
    done = [e.parsed_arguments for e in events if e.type == "tool_calls.function.arguments.done"]
    assert done == [function.parsed_arguments for function in expected]


def test_one_call_where_one_is_asked_for(service: Service) -> None:
    request = asked(service, "Weather in Rome, and a timer!", temperature=1, seed=4)
    answer = service.client().chat.completions.parse(
        **request, tools=TOOLS, tool_choice="required", parallel_tool_calls=False
    )
    assert len(answer.choices[0].message.tool_calls or []) == 1


def test_the_result_of_a_tool_comes_back_in(service: Service) -> None:
    request = asked(service, "Weather in Rome?", temperature=0, tool_choice="required")
    client = service.client()
    message = client.chat.completions.create(**request, tools=TOOLS).choices[0].message
    results: list[Any] = [
        {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"celsius": 21})}
        for call in message.tool_calls or []
    ]
    history = [*request["messages"], message, *results]
    answer = client.chat.completions.create(
        model=service.model, messages=history, tools=TOOLS, temperature=0, max_tokens=40
    )
    assert answer.choices[0].message.content or answer.choices[0].message.tool_calls
    assert answer.usage is not None
