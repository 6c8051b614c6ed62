"""instructor against the running service, in each of its ways to ask for a type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import instructor
import pytest
from pydantic import BaseModel, Field

from .conftest import Service

Name = Annotated[str, Field(max_length=16)]


class Animal(BaseModel):
    """An animal of a zoo."""

    name: Name
    species: Literal["lion", "tiger", "bear"]
    age: Annotated[int, Field(ge=0, le=40)]
    likes: Annotated[list[Name], Field(min_length=1, max_length=2)]


ZOO = "Leo is a lion of 4 years who likes meat. Bruno is a bear of 7 years who likes honey."


def asked(service: Service, what: str = "Invent an animal.") -> dict[str, Any]:
    messages = [{"role": "user", "content": what}]
    return {"model": service.model, "messages": messages, "max_tokens": 200, "max_retries": 0}


def client(service: Service, mode: instructor.Mode) -> Any:
    return instructor.from_openai(service.client(), mode=mode)


FORCED = [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA]


@pytest.mark.parametrize("mode", FORCED)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_type_is_asked_for(service: Service, mode: instructor.Mode, temperature: float) -> None:
    animal, answer = client(service, mode).chat.completions.create_with_completion(
        **asked(service), response_model=Animal, temperature=temperature, seed=1
    )
    assert isinstance(animal, Animal)
    assert answer.usage.completion_tokens > 0


def test_json_mode_and_a_model_that_reads_the_schema(coder: Service) -> None:
    animal = client(coder, instructor.Mode.JSON).chat.completions.create(
        **asked(coder, ZOO), response_model=Animal, temperature=0
    )
    assert isinstance(animal, Animal)


@pytest.mark.parametrize("mode", FORCED)
def test_a_stream_grows_to_the_whole(service: Service, mode: instructor.Mode) -> None:
    completions = client(service, mode).chat.completions
    whole = completions.create(**asked(service), response_model=Animal, temperature=0)
    parts = list(completions.create_partial(**asked(service), response_model=Animal, temperature=0))
    assert len(parts) > 3
    assert parts[-1].model_dump() == whole.model_dump()


def test_several_of_a_type(coder: Service) -> None:
    animals = client(coder, instructor.Mode.TOOLS).chat.completions.create_iterable(
        **asked(coder, ZOO), response_model=Animal, temperature=0
    )
    found = list(animals)
    assert found
    assert all(isinstance(animal, Animal) for animal in found)


class Food(BaseModel):
    """Food to buy."""

    food: Name


def test_parallel_calls(coder: Service) -> None:
    found = client(coder, instructor.Mode.PARALLEL_TOOLS).chat.completions.create(
        **asked(coder, "Leo is a lion of 4 years who likes meat. Buy meat. Call both tools."),
        response_model=Iterable[Animal | Food],
        temperature=0,
    )
    assert all(isinstance(each, Animal | Food) for each in found)
