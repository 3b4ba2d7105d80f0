"""The diff of two compiled inputs, block by block.

In: the blocks of two snapshots in the order of their manifests, with content. Out: an entry for each block: same,
changed (with the words that changed), added, removed, or moved. Never: a block left out: every block of both is in
exactly one entry.

Two blocks are the same if their role, kind and content are; ids do not matter. Blocks in the longest common order
stay; other blocks that both have were moved. The rest is paired by similarity, as `compare.align` pairs messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from traceforge.canon import JSON
from traceforge.compare.alignment import align_items
from traceforge.compare.sequence_diff import Pairs, match_equal, match_unique
from traceforge.compare.text_diff import TextDiff, diff_words
from traceforge.context.model.block_source import content_digest
from traceforge.context.model.content import ContentBlock

WORK_MAX = 200_000  # Steps to find the common order, about 0.1 s; beyond, blocks that occur once are paired.


class BlockChangeKind(StrEnum):
    """How a block differs between the two inputs."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"


class BlockChange(NamedTuple):
    """One block of either input, or of both. Places count from 0."""

    kind: BlockChangeKind
    before: ContentBlock | None
    after: ContentBlock | None
    before_place: int | None
    after_place: int | None
    words: TextDiff | None = None  # Of a change between two texts.

    def to_json(self) -> JSON:
        """The kind of change, both sides without their contents, and the words that changed."""
        return {
            "change": self.kind.value,
            "before": _side(self.before, self.before_place),
            "after": _side(self.after, self.after_place),
            "words": None if self.words is None else self.words.to_json(),
        }


def block_identity(block: ContentBlock) -> tuple[str, str, str]:
    """Role, kind and content digest: the three that a manifest's digest covers."""
    return block.role, block.kind, block.hidden or content_digest(block.content)


def diff_blocks(before: Sequence[ContentBlock], after: Sequence[ContentBlock]) -> list[BlockChange]:
    """Compare two inputs. The entries have the order of the second; a removed block is listed at its old place."""
    old, new = [block_identity(block) for block in before], [block_identity(block) for block in after]
    order = match_equal(old, new, WORK_MAX)
    common: Pairs = match_unique(old, new) if order is None else order
    moved = _moved(old, new, common)
    moved_from, moved_to = {i for i, _ in moved}, {j for _, j in moved}
    old_places = [place for place in range(len(old)) if place not in moved_from]
    new_places = [place for place in range(len(new)) if place not in moved_to]
    entries = [
        _entry(before, after, None if i is None else old_places[i], None if j is None else new_places[j])
        for i, j in align_items(
            [_comparable(before[place]) for place in old_places], [_comparable(after[place]) for place in new_places]
        )
    ]
    return _ordered(entries, [BlockChange(BlockChangeKind.MOVED, before[i], after[j], i, j) for i, j in moved])


def _moved(old: list[tuple[str, str, str]], new: list[tuple[str, str, str]], common: Pairs) -> Pairs:
    """The blocks that both have outside of their common order, as pairs of places."""
    old_common, new_common = {i for i, _ in common}, {j for _, j in common}
    places: dict[tuple[str, str, str], list[int]] = {}
    for place, name in enumerate(old):
        if place not in old_common:
            places.setdefault(name, []).append(place)
    moved: Pairs = []
    for place, name in enumerate(new):
        if place not in new_common and places.get(name):
            moved.append((places[name].pop(0), place))
    return moved


def _comparable(block: ContentBlock) -> JSON:
    text = block.text
    return {
        "role": block.role,
        "kind": block.kind,
        "content": block_identity(block)[2] if text is None else text,
    }


def _entry(
    before: Sequence[ContentBlock], after: Sequence[ContentBlock], i: int | None, j: int | None
) -> BlockChange:
    old, new = None if i is None else before[i], None if j is None else after[j]
    if old is None:
        return BlockChange(BlockChangeKind.ADDED, None, new, None, j)
    if new is None:
        return BlockChange(BlockChangeKind.REMOVED, old, None, i, None)
    if block_identity(old) == block_identity(new):
        return BlockChange(BlockChangeKind.SAME, old, new, i, j)
    texts = old.text, new.text
    words = None if texts[0] is None or texts[1] is None else diff_words(texts[0], texts[1])
    return BlockChange(BlockChangeKind.CHANGED, old, new, i, j, words)


def _ordered(entries: list[BlockChange], moved: list[BlockChange]) -> list[BlockChange]:
    """All entries, the moved blocks at their new places."""
    ordered: list[BlockChange] = []
    waiting = list(moved)
    for entry in entries:
        while waiting and entry.after_place is not None and (waiting[0].after_place or 0) < entry.after_place:
            ordered.append(waiting.pop(0))
        ordered.append(entry)
    return ordered + waiting


def _side(block: ContentBlock | None, place: int | None) -> JSON:
    if block is None:
        return None
    role, kind, digest = block_identity(block)
    return {"block_id": block.block_id, "place": place, "role": role, "kind": kind, "content_digest": digest}
