"""Pair the items of two lists by similarity.

In: two lists of JSON objects, such as messages or the parts of one. Out: pairs of indexes in order; None on one side
for an item that was removed or added. Never: lets two pairs cross, so the order is kept.

Equal items are paired first. What lies between them is paired by similarity: the share of words that two items have
in common, and a little more where both are of the same kind (`role` or `type`). So a message that is added at
the front does not change how the others are paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from traceforge.canon import JSON, exact_canonical_bytes
from traceforge.compare.sequence_diff import Gap, list_gaps, match_equal
from traceforge.compare.text_diff import split_words

WORK_MAX = 100_000  # Steps to pair equal items; conversations beyond that are paired by place.
CELLS_MAX = 2_500  # 50 changed items against 50 are weighed one by one; beyond, they are paired by place.
WORDS_MAX = 500  # The beginning of an item is enough to recognise it.

SAME_KIND = 0.1  # So that a rewritten message is one change, and not one removed and one added.
OTHER_KIND = -0.5  # Another role, but more than half of the words: the role was changed.

IndexPair = tuple[int | None, int | None]


class _ItemProfile(NamedTuple):
    kind: object
    bag: Counter[str]


def align_items(before: Sequence[JSON], after: Sequence[JSON]) -> list[IndexPair]:
    """Pair the items of two lists, in order; every place of both occurs exactly once."""
    old, new = [exact_canonical_bytes(item) for item in before], [exact_canonical_bytes(item) for item in after]
    anchors = match_equal(old, new, WORK_MAX) or []
    places: list[IndexPair] = []
    i = 0
    for gap in list_gaps(anchors, len(before), len(after)):
        places += [(k, k - gap.start + gap.after_start) for k in range(i, gap.start)]
        places += _pair_gap(before, after, gap)
        i = gap.end
    places += [(k, k - len(before) + len(after)) for k in range(i, len(before))]
    return places


def _pair_gap(before: Sequence[JSON], after: Sequence[JSON], gap: Gap) -> Iterator[IndexPair]:
    old, new = range(gap.start, gap.end), range(gap.after_start, gap.after_end)
    if len(old) * len(new) > CELLS_MAX:
        yield from zip_longest(old, new)
        return
    looks = [_profile(before[i]) for i in old], [_profile(after[j]) for j in new]
    for i, j in _best_pairs(*looks):
        yield (None if i is None else old[i], None if j is None else new[j])


def _best_pairs(old: list[_ItemProfile], new: list[_ItemProfile]) -> list[IndexPair]:
    """The pairs with the greatest sum of likeness that keep the order."""
    likeness = [[_likeness(a, b) for b in new] for a in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]  # of old[i:] and new[j:]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            paired = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] > 0 else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    return list(_walk_best_pairs(likeness, best, len(old), len(new)))


def _walk_best_pairs(likeness: list[list[float]], best: list[list[float]], old: int, new: int) -> Iterator[IndexPair]:
    i = j = 0
    while i < old and j < new:
        if likeness[i][j] > 0 and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            yield (i, j)
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            yield (i, None)
            i += 1
        else:
            yield (None, j)
            j += 1
    yield from ((k, None) for k in range(i, old))
    yield from ((None, k) for k in range(j, new))


def _likeness(old: _ItemProfile, new: _ItemProfile) -> float:
    total = old.bag.total() + new.bag.total()
    shared = (old.bag & new.bag).total()
    likeness = 2 * shared / total if total else 0.0
    return likeness + (SAME_KIND if old.kind == new.kind else OTHER_KIND)


def _profile(item: JSON) -> _ItemProfile:
    kind = item.get("role", item.get("type")) if isinstance(item, dict) else None
    words: list[str] = []
    for text in _texts(item):
        words += split_words(text[: WORDS_MAX * 20])
        if len(words) >= WORDS_MAX:
            break
    return _ItemProfile(kind if isinstance(kind, str) else None, Counter(words[:WORDS_MAX]))


def _texts(value: JSON) -> Iterator[str]:
    """Every text in a value but its keys, and but the names of roles and types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key not in ("role", "type"):
                yield from _texts(member)
