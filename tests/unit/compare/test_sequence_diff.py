"""`compare/sequence_diff.py`: pairs are equal, increase on both sides, and are as many as possible."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from traceforge.compare.sequence_diff import Gap, list_gaps, match_equal, match_equal_counted, match_unique

sequences = st.lists(st.integers(0, 3), max_size=12)
long_runs = st.builds(
    lambda parts: [item for part in parts for item in part],
    st.lists(st.sampled_from([[1] * 70, [2] * 130, list(range(90)), [3], []]), max_size=5),
)


def _longest_common(before: list[int], after: list[int]) -> int:
    """The textbook's table, to check against."""
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, old in enumerate(before):
        for j, new in enumerate(after):
            table[i + 1][j + 1] = table[i][j] + 1 if old == new else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def _is_matching(pairs: list[tuple[int, int]], before: list[int], after: list[int]) -> bool:
    rising = all(left[0] < right[0] and left[1] < right[1] for left, right in pairwise(pairs))
    return rising and all(before[i] == after[j] for i, j in pairs)


@given(sequences, sequences)
def test_the_pairs_are_a_longest_common_subsequence(before: list[int], after: list[int]) -> None:
    pairs = match_equal(before, after, 10_000)

    assert pairs is not None
    assert _is_matching(pairs, before, after)
    assert _longest_common(before, after) == len(pairs)


@given(long_runs, long_runs)
def test_long_equal_runs_are_followed_to_their_end(before: list[int], after: list[int]) -> None:
    pairs = match_equal(before, after, 1_000_000)

    assert pairs is not None
    assert _longest_common(before, after) == len(pairs)


@given(sequences, sequences, st.integers(0, 30))
def test_the_search_stops_at_its_work_limit(before: list[int], after: list[int], limit: int) -> None:
    """Soon after it, or it ends before."""
    pairs, work = match_equal_counted(before, after, limit)

    assert work <= limit + len(before) + len(after) + 1
    assert pairs is None or _is_matching(pairs, before, after)


@given(sequences, sequences)
def test_items_that_occur_once_are_paired_in_order(before: list[int], after: list[int]) -> None:
    """Patience diff pairs fewer items, and never wrong ones."""
    assert _is_matching(match_unique(before, after), before, after)


def test_a_moved_item_leaves_the_most_pairs() -> None:
    assert [(1, 0), (2, 1), (3, 2)] == match_unique([9, 1, 2, 3, 7], [1, 2, 3, 9, 8])


@given(sequences, sequences)
def test_pairs_and_gaps_cover_both_sequences(before: list[int], after: list[int]) -> None:
    """Every position is in one pair or one gap, and no gap is empty."""
    pairs = match_equal(before, after, 10_000) or []
    gaps = list(list_gaps(pairs, len(before), len(after)))

    old = sorted([i for i, _ in pairs] + [i for gap in gaps for i in range(gap.start, gap.end)])
    new = sorted([j for _, j in pairs] + [j for gap in gaps for j in range(gap.after_start, gap.after_end)])

    assert list(range(len(before))) == old
    assert list(range(len(after))) == new
    assert [] == [gap for gap in gaps if gap.start == gap.end and gap.after_start == gap.after_end]


def test_a_gap_has_the_range_of_each_side() -> None:
    assert [Gap(1, 2, 1, 3)] == list(list_gaps([(0, 0), (2, 3)], 3, 4))
