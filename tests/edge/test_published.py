from __future__ import annotations

from pathlib import Path

import pytest

from headrace.edge.published import PublishedPrefixes, read_texts

from .fakes import BOS, Bytes


@pytest.mark.parametrize(
    ("ids", "shared"), [([], 0), ([1], 1), ([1, 2, 3, 9], 3), ([1, 7], 2), ([9, 1, 2, 3], 0)]
)
def test_shared_is_the_longest_published_beginning(ids: list[int], shared: int) -> None:
    assert PublishedPrefixes([[1, 2, 3], [1, 7, 7], []]).shared_by(ids) == shared


def test_nothing_is_shared_without_publication() -> None:
    assert PublishedPrefixes().shared_by([1, 2, 3]) == 0


def test_a_text_is_published_as_system_message_and_as_beginning_of_a_completion() -> None:
    words = Bytes()
    published = PublishedPrefixes.of_texts(["Be kind."], words)
    chat = words.chat(
        [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
        variables={},
    )
    assert bytes(chat[1 : published.shared_by(chat)]) == b"<system>Be kind.</><user>"
    other = words.chat([{"role": "system", "content": "Be brief."}], variables={})
    assert bytes(other[1 : published.shared_by(other)]) == b"<system>Be "
    assert published.shared_by(words.completion("Be kind. And")) == len("Be kind.")
    assert published.shared_by([BOS]) == 1


def test_a_template_without_such_messages_leaves_the_plain_text() -> None:
    words = Bytes()
    published = PublishedPrefixes.of_texts(["RAISE"], words)
    assert published.shared_by(words.completion("RAISE it")) == 5
    assert published.shared_by(words.chat([{"role": "user", "content": "RAIS"}], variables={})) == 0


def test_texts_are_the_folders_text_files_in_order(tmp_path: Path) -> None:
    for name, text in (("b.txt", "two\n"), ("a.txt", "öne"), ("c.md", "no")):
        (tmp_path / name).write_text(text, "utf-8")
    assert read_texts(tmp_path) == ["öne", "two\n"]
