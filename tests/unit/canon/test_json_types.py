"""`canon/json_types.py`: JSON paths."""

from __future__ import annotations

import pytest

from traceforge.canon import json_path


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (0, "$[0]"),
        (17, "$[17]"),
        ("a", "$.a"),
        ("_tool_2", "$._tool_2"),
        ("top-p", '$["top-p"]'),
        ("0", '$["0"]'),
        ("", '$[""]'),
        ("a.b", '$["a.b"]'),
        ("a\n", '$["a\\n"]'),
    ],
)
def test_a_path_ends_with_the_key_or_index(key: str | int, path: str) -> None:
    """An index in brackets, a plain name after a dot, any other key in brackets and quotes."""
    assert path == json_path("$", key)


def test_a_path_lists_its_steps_from_the_document_inwards() -> None:
    path = json_path(json_path(json_path(json_path("$", "snapshots"), 0), "request"), "top-p")

    assert path == '$.snapshots[0].request["top-p"]'


@pytest.mark.parametrize("key", ["é", "😀", "\ud800", "\x1b[31m", "a\r\nb", "\u202e", "\u2028"])
def test_a_path_is_printable_ascii(key: str) -> None:
    """A hostile key cannot move a terminal's cursor, begin a line of a log, or fail to be encoded."""
    path = json_path("$", key)

    assert path.isascii()
    assert path.isprintable()


def test_an_index_and_a_key_of_the_same_digits_differ() -> None:
    assert json_path("$", 1) != json_path("$", "1")
