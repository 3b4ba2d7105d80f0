"""`compare/alignment.py`: items are paired by content, in order, each exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.compare import alignment as module
from traceforge.compare.alignment import align_items


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


messages = st.lists(
    st.builds(
        _message, st.sampled_from(["user", "system"]), st.sampled_from(["hi", "hi there", "a b c d", "x y z", ""])
    ),
    max_size=6,
)
SYSTEM = _message("system", "You are a helpful assistant who answers briefly.")
QUESTION = _message("user", "What is the capital of France?")
ANSWER = _message("assistant", "The capital of France is Paris.")


@given(messages, messages, st.sampled_from([0, 4, 2_500]))
def test_every_item_occurs_once_and_in_order(before: list[Any], after: list[Any], cells: int) -> None:
    """Also where the lists are too long for a full comparison."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CELLS_MAX", cells)
        places = align_items(before, after)

    assert list(range(len(before))) == [i for i, _ in places if i is not None]
    assert list(range(len(after))) == [j for _, j in places if j is not None]


def test_a_message_inserted_in_front_leaves_the_other_pairs() -> None:
    """Also that of the edited message."""
    edited = _message("user", "What is the capital city of France?")

    places = align_items([SYSTEM, QUESTION, ANSWER], [_message("system", "Be kind."), SYSTEM, edited, ANSWER])

    assert [(None, 0), (0, 1), (1, 2), (2, 3)] == places


def test_an_edited_message_after_a_new_one_is_paired() -> None:
    """Between equal messages, the most similar partner wins, not the nearest."""
    edited = _message("system", "You are a helpful assistant who answers at length.")

    assert [(None, 0), (0, 1)] == align_items([SYSTEM], [_message("system", "Today is Monday."), edited])


def test_a_rewritten_message_of_the_same_role_is_one_change() -> None:
    assert [(0, 0), (1, 1)] == align_items([SYSTEM, QUESTION], [SYSTEM, _message("user", "Tell me a joke!")])


def test_a_message_that_only_changed_its_role_is_one_change() -> None:
    assert [(0, 0)] == align_items([SYSTEM], [{**SYSTEM, "role": "developer"}])


def test_a_message_of_another_role_and_text_is_not_paired() -> None:
    """One was removed and one added."""
    assert [(0, None), (None, 0)] == align_items([SYSTEM], [QUESTION])
