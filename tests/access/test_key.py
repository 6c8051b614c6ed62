"""The form of a key."""

from __future__ import annotations

import hashlib
import hmac
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.errors import InvalidKey
from headrace.access.key import Key

VISIBLE = string.ascii_letters + string.digits + string.punctuation
IDS = st.text(VISIBLE.replace("_", ""), min_size=1, max_size=200)
SECRETS = st.text(VISIBLE, min_size=1, max_size=512)


@given(IDS, SECRETS)
def test_the_first_underscore_ends_the_id(id: str, secret: str) -> None:
    key = Key.parse(f"hr-{id}_{secret}")
    assert (key.id, key.secret) == (id, secret)
    assert key.text == f"hr-{id}_{secret}"


@given(st.text())
def test_any_text_is_a_key_or_is_refused_without_being_quoted(text: str) -> None:
    try:
        assert Key.parse(text).text == text
    except InvalidKey as error:
        assert not error.__context__
        assert str(error) == "not of the form hr-<id>_<secret>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hr-",
        "hr-a",
        "hr-a_",
        "hr-_b",
        "sk-a_b",
        "HR-a_b",
        " hr-a_b",
        "hr-a_b ",
        "hr-a_b\n",
        "hr-a b_c",
        "hr-a_b\x00",
        "hr-ä_b",
        "hr-a_ü",
        "hr-٣_b",
        f"hr-{'a' * 201}_b",
        f"hr-a_{'b' * 513}",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(InvalidKey):
        Key.parse(text)


def test_a_made_key_is_long_and_parses() -> None:
    keys = [Key.make() for _ in range(200)]
    assert len({key.id for key in keys}) == len({key.secret for key in keys}) == 200
    for key in keys:
        assert Key.parse(key.text) == key
        assert len(key.id) == 16
        assert key.id.isalnum()
        assert len(key.secret) == 43  # 256 bits


def test_its_representation_hides_the_secret() -> None:
    key = Key.make()
    assert key.secret not in repr(key)
    assert key.id in repr(key)


@given(IDS, SECRETS, st.binary(min_size=32, max_size=32))
def test_its_digest_is_hmac_sha256_of_all_of_it(id: str, secret: str, pepper: bytes) -> None:
    expected = hmac.new(pepper, f"hr-{id}_{secret}".encode(), hashlib.sha256).digest()
    assert Key(id, secret).digest(pepper) == expected
