"""What two sequences have in common, in order: Myers' shortest edit script, with a bound on its work.

In: two sequences of values that can be compared. Out: pairs of indexes of equal values, in ascending order; all
other values were removed or added. Never: takes more steps than it was allowed.

Why our own code: difflib looks at every pair of equal items, and half of a text's tokens are the same single space;
with `autojunk` it leaves frequent items out and misses plain matches. Myers' algorithm costs what the texts
*differ* by, so a long text with a small edit is cheap, and the cost can be counted and stopped.

    E. Myers, An O(ND) Difference Algorithm and Its Variations, Algorithmica 1 (1986)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Pairs = list[tuple[int, int]]

_STRIDE = 64  # Equal runs are followed this many items at a time, at the speed of a list comparison.


class Gap(NamedTuple):
    """A stretch between two pairs: `before[start:end]` was replaced by `after[after_start:after_end]`."""

    start: int
    end: int
    after_start: int
    after_end: int


def match_equal(before: Sequence[T], after: Sequence[T], work_max: int) -> Pairs | None:
    """Pair as many equal items as can be paired in order; None if that takes more than `work_max` steps.

    A step is one diagonal looked at, or one stride of equal items behind it.
    """
    return match_equal_counted(before, after, work_max)[0]


def match_equal_counted(before: Sequence[T], after: Sequence[T], work_max: int) -> tuple[Pairs | None, int]:
    """As `match_equal`; also returns the number of steps, for a caller with a budget."""
    head, tail = _common_ends(before, after)
    inner, work = _shortest_edit(before[head : len(before) - tail], after[head : len(after) - tail], work_max)
    return (None if inner is None else _with_ends(inner, head, tail, len(before), len(after))), work


def match_unique(before: Sequence[H], after: Sequence[H]) -> Pairs:
    """Pair the common beginning and end and, between them, items that occur once in each, in order.

    Bram Cohen's patience diff: fewer pairs than `match_equal`, in time that hardly depends on how much differs.
    """
    head, tail = _common_ends(before, after)
    old, new = (_only_once(items[head : len(items) - tail]) for items in (before, after))
    candidates = [(i, new[item]) for item, i in old.items() if item in new]
    return _with_ends(_longest_rise(candidates), head, tail, len(before), len(after))


def list_gaps(pairs: Pairs, before_length: int, after_length: int) -> Iterator[Gap]:
    """Everything that `pairs` leaves out, as the stretches between them; none is empty on both sides."""
    i = j = 0
    for next_i, next_j in [*pairs, (before_length, after_length)]:
        if next_i > i or next_j > j:
            yield Gap(i, next_i, j, next_j)
        i, j = next_i + 1, next_j + 1


def _equal_run(before: Sequence[T], after: Sequence[T], i: int, j: int) -> int:
    """How many items are equal from these places on."""
    start = i
    shorter = min(len(before) - i, len(after) - j)
    strides_end = i + shorter - shorter % _STRIDE
    while i < strides_end and before[i : i + _STRIDE] == after[j : j + _STRIDE]:
        i += _STRIDE
        j += _STRIDE
    end = start + shorter
    while i < end and before[i] == after[j]:
        i += 1
        j += 1
    return i - start


def _common_ends(before: Sequence[T], after: Sequence[T]) -> tuple[int, int]:
    """How many items the beginnings share, and how many of the others the ends do."""
    head = _equal_run(before, after, 0, 0)
    tail = _equal_run(before[head:][::-1], after[head:][::-1], 0, 0)
    return head, tail


def _with_ends(inner: Pairs, head: int, tail: int, before_length: int, after_length: int) -> Pairs:
    pairs = [(place, place) for place in range(head)]
    pairs += [(head + i, head + j) for i, j in inner]
    pairs += [(before_length - back, after_length - back) for back in range(tail, 0, -1)]
    return pairs


def _only_once(items: Sequence[H]) -> dict[H, int]:
    counts = Counter(items)
    return {item: place for place, item in enumerate(items) if counts[item] == 1}


def _longest_rise(pairs: Pairs) -> Pairs:
    """The longest choice of pairs, sorted by their first place, in which the second rises too."""
    ends: list[int] = []  # ends[n]: the smallest second place with which a rise of n + 1 pairs can end
    previous: list[int] = []  # for each pair the one before it in its rise
    last: list[int] = []  # the pair that ends it
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [number]
    rise: Pairs = []
    number = last[-1] if last else -1
    while number >= 0:
        rise.append(pairs[number])
        number = previous[number]
    rise.reverse()
    return rise


def _shortest_edit(before: Sequence[T], after: Sequence[T], work_max: int) -> tuple[Pairs | None, int]:
    """Myers' greedy search: `reach[k]` is how far into `before` diagonal k was followed with d edits."""
    n, m = len(before), len(after)
    if not n or not m:
        return [], 0
    edits_max = min(n + m, work_max)
    reach = [0] * (2 * edits_max + 3)  # Diagonal k stands at k; a negative one counts from the end, as lists do.
    history: list[tuple[int, list[int]]] = []
    work = 0
    for d in range(edits_max + 1):
        low, high = -d + 2 * max(0, d - m), d - 2 * max(0, d - n)
        for k in range(low, high + 1, 2):
            down = k == -d or (k != d and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            if x < n and y < m and before[x] == after[y]:
                run = _equal_run(before, after, x, y)
                work += run // _STRIDE
                x += run
            reach[k] = x
            if x >= n and x - k >= m:
                return _walk_back(history, d, n, m), work
        work += (high - low) // 2 + 1
        if work > work_max:
            return None, work
        history.append((low, [reach[k] for k in range(low, high + 1, 2)]))
    return None, work


def _walk_back(history: list[tuple[int, list[int]]], edits: int, x: int, y: int) -> Pairs:
    """Follow the winning path from its end; every diagonal step on it is a pair."""
    pairs: Pairs = []
    for d in range(edits, 0, -1):
        low, row = history[d - 1]
        k = x - y
        below, above = _reached(low, row, k - 1), _reached(low, row, k + 1)
        down = k == -d or (k != d and below < above)
        from_x = above if down else below
        from_y = from_x - (k + 1 if down else k - 1)
        start = from_x if down else from_x + 1
        pairs += [(place, place - k) for place in range(x - 1, start - 1, -1)]
        x, y = from_x, from_y
    pairs += [(place, place) for place in range(x - 1, -1, -1)]
    pairs.reverse()
    return pairs


def _reached(low: int, row: list[int], k: int) -> int:
    place = (k - low) // 2
    return row[place] if 0 <= place < len(row) else -1
