"""A file of the tree as lines for a diff."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from traceforge.report.git_textconv import to_readable_text


def test_a_multi_line_text_is_shown_as_lines() -> None:
    """Everything else as one member a line."""
    value = {"a": 0, "messages": [{"role": "user", "content": "one\ntwo"}, {}], "empty": "", "none": None}

    expected = (
        "a: 0\nmessages:\n  -\n    role: user\n    content:\n      | one\n      | two\n  - {}\nempty: \nnone: null\n"
    )

    assert expected == to_readable_text(json.dumps(value).encode())


@given(st.binary())
def test_a_file_that_is_not_json_is_shown_as_text(data: bytes) -> None:
    assert isinstance(to_readable_text(data), str)


@given(
    st.recursive(
        st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=9
    )
)
def test_no_text_can_forge_a_line(value: object) -> None:
    """Each line is printable."""
    assert all(line.isprintable() for line in to_readable_text(json.dumps(value).encode()).split("\n"))
