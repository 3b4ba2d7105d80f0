"""A file of the tree as lines for a diff."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from traceforge.report.git_textconv import to_readable_text


def test_a_text_of_several_lines_is_shown_as_these_lines() -> None:
    """And everything else as one member a line."""
    value = {"a": 0, "messages": [{"role": "user", "content": "one\ntwo"}, {}], "empty": "", "none": None}

    expected = (
        "a: 0\nmessages:\n  -\n    role: user\n    content:\n      | one\n      | two\n  - {}\nempty: \nnone: null\n"
    )

    assert expected == to_readable_text(json.dumps(value).encode()).decode()


@given(st.binary())
def test_it_never_fails(data: bytes) -> None:
    """What is no JSON is shown as it is."""
    to_readable_text(data)


@given(
    st.recursive(
        st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=9
    )
)
def test_no_text_forges_a_line(value: object) -> None:
    """Each line is printable."""
    assert all(line.isprintable() for line in to_readable_text(json.dumps(value).encode()).decode().split("\n"))
