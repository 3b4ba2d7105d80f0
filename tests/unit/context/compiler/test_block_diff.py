"""`context/compiler/block_diff.py`: every block of two inputs is accounted for."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.context.compiler.block_diff import BlockChangeKind, block_identity, diff_blocks
from traceforge.context.model.block_source import kind_of
from traceforge.context.model.content import ContentBlock


def _block(content: Any, role: str = "user", kind: str = "user_message", number: int = 0) -> ContentBlock:
    return ContentBlock(f"blk_{number:026d}", role, kind_of(kind, content), content)


A, B, C, D = (_block(f"{word} stands here.") for word in ("Alpha", "Beta", "Gamma", "Delta"))
blocks = st.lists(
    st.builds(
        _block,
        st.sampled_from(["one two three", "one two four", "five", "", b"\x00", b"\x01"])
        | st.just({"a": [1, "one two"]}),
        st.sampled_from(["user", "assistant"]),
    ),
    max_size=8,
)


def _kinds(before: list[ContentBlock], after: list[ContentBlock]) -> list[str]:
    return [change.kind.value for change in diff_blocks(before, after)]


@fuzz(200)
@given(blocks, blocks)
def test_every_block_is_in_exactly_one_entry(before: list[ContentBlock], after: list[ContentBlock]) -> None:
    """At its own place on its own side; equal sides are the same or moved, and the words join to the texts."""
    changes = diff_blocks(before, after)

    assert list(range(len(before))) == sorted(
        change.before_place for change in changes if change.before_place is not None
    )
    assert list(range(len(after))) == [change.after_place for change in changes if change.after_place is not None]
    for change in changes:
        assert change.before is (None if change.before_place is None else before[change.before_place])
        assert change.after is (None if change.after_place is None else after[change.after_place])
        if change.before is None or change.after is None:
            assert (BlockChangeKind.ADDED if change.before is None else BlockChangeKind.REMOVED) is change.kind
        else:
            assert (block_identity(change.before) == block_identity(change.after)) == (
                change.kind in (BlockChangeKind.SAME, BlockChangeKind.MOVED)
            )
        if change.words is not None and change.before is not None and change.after is not None:
            assert (change.before.text, change.after.text) == (change.words.before, change.words.after)


@fuzz(100)
@given(blocks, blocks)
def test_a_block_of_both_inputs_is_neither_added_nor_removed(
    before: list[ContentBlock], after: list[ContentBlock]
) -> None:
    """As many entries are the same or moved as the two have blocks in common."""
    common = Counter(map(block_identity, before)) & Counter(map(block_identity, after))

    assert common.total() == sum(kind in ("same", "moved") for kind in _kinds(before, after))


@fuzz(50)
@given(blocks)
def test_an_input_is_the_same_as_itself(given_blocks: list[ContentBlock]) -> None:
    """Whatever the ids of its blocks are."""
    elsewhere = [block._replace(block_id="blk_" + "9" * 26) for block in given_blocks]

    assert ["same"] * len(given_blocks) == _kinds(given_blocks, elsewhere)


def test_the_five_changes() -> None:
    """One of each."""
    rewritten = _block("Beta stands there now.")

    assert ["same", "same", "added"] == _kinds([A, B], [A, B, C])
    assert ["removed", "same"] == _kinds([A, B], [B])
    assert ["same", "changed", "same"] == _kinds([A, B, C], [A, rewritten, C])
    assert ["moved", "same", "same"] == _kinds([A, B, C], [C, A, B])
    assert ["changed"] == _kinds([A], [A._replace(role="assistant")])


def test_a_changed_block_has_a_word_diff() -> None:
    """The block's texts, stretch by stretch; bytes have no words."""
    (change,) = diff_blocks([B], [_block("Beta stands there.")])
    (binary,) = diff_blocks([_block(b"\x00")], [_block(b"\x01")])

    assert change.words is not None
    assert [("here", "there")] == [(edit.before, edit.after) for edit in change.words.edits]
    assert (BlockChangeKind.CHANGED, None) == (binary.kind, binary.words)


def test_a_fork_has_the_blocks_of_its_parent_as_same() -> None:
    """Two branches of a long history: the common part is the same, and their ends differ."""
    past = [_block(f"Event {number} of the past.", number=number) for number in range(500)]
    changes = diff_blocks([*past, A, B], [*past, C])

    assert 500 == sum(change.kind is BlockChangeKind.SAME for change in changes)
    assert 3 == sum(1 for change in changes for side in (change.before, change.after) if side in (A, B, C) and side)


def test_the_json_of_a_change_names_both_sides() -> None:
    """With places, digests and words; of what is the same, no word."""
    same, changed = diff_blocks([A, B], [A, _block("Beta stands there.")])
    document: Any = json.loads(json.dumps(changed.to_json()))

    assert ("changed", 1, 1, "user", "user_message") == (
        document["change"],
        document["before"]["place"],
        document["after"]["place"],
        document["after"]["role"],
        document["after"]["kind"],
    )
    assert {"before": "here", "after": "there"} in document["words"]["stretches"]
    assert same.to_json()["words"] is None  # type: ignore[index,call-overload]
