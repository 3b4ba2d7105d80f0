"""`compare/sequence_diff.py`: pairs are equal, rise on both sides, and are as many as there can be."""

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
    """The textbook's table, as a judge."""
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, old in enumerate(before):
        for j, new in enumerate(after):
            table[i + 1][j + 1] = table[i][j] + 1 if old == new else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def _is_matching(pairs: list[tuple[int, int]], before: list[int], after: list[int]) -> bool:
    rising = all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(pairs))
    return rising and all(before[i] == after[j] for i, j in pairs)


@given(sequences, sequences)
def test_as_many_items_are_paired_as_can_be(before: list[int], after: list[int]) -> None:
    """The pairs are a longest common subsequence."""
    pairs = match_equal(before, after, 10_000)

    assert pairs is not None
    assert _is_matching(pairs, before, after)
    assert _longest_common(before, after) == len(pairs)


@given(long_runs, long_runs)
def test_long_equal_runs_are_followed_to_their_end(before: list[int], after: list[int]) -> None:
    """Strides over equal items end where the items do, wherever that is."""
    pairs = match_equal(before, after, 1_000_000)

    assert pairs is not None
    assert _longest_common(before, after) == len(pairs)


@given(sequences, sequences, st.integers(0, 30))
def test_work_beyond_the_bound_is_not_done(before: list[int], after: list[int], most: int) -> None:
    """The search gives up soon after its bound, or is done within it."""
    pairs, work = match_equal_counted(before, after, most)

    assert work <= most + len(before) + len(after) + 1
    assert pairs is None or _is_matching(pairs, before, after)


@given(sequences, sequences)
def test_items_that_occur_once_are_paired_in_order(before: list[int], after: list[int]) -> None:
    """Patience pairs fewer items, and never wrong ones."""
    assert _is_matching(match_unique(before, after), before, after)


def test_an_item_that_moved_does_not_break_the_longest_rise() -> None:
    """Of two orders, the one that keeps more pairs is taken."""
    assert [(1, 0), (2, 1), (3, 2)] == match_unique([9, 1, 2, 3, 7], [1, 2, 3, 9, 8])


@given(sequences, sequences)
def test_pairs_and_gaps_cover_both_sequences(before: list[int], after: list[int]) -> None:
    """Every place is in one pair or in one gap, and no gap is empty."""
    pairs = match_equal(before, after, 10_000) or []
    found = list(list_gaps(pairs, len(before), len(after)))

    old = sorted([i for i, _ in pairs] + [i for gap in found for i in range(gap.start, gap.end)])
    new = sorted([j for _, j in pairs] + [j for gap in found for j in range(gap.after_start, gap.after_end)])

    assert list(range(len(before))) == old
    assert list(range(len(after))) == new
    assert [] == [gap for gap in found if gap.start == gap.end and gap.after_start == gap.after_end]


def test_a_gap_names_what_was_replaced() -> None:
    """The stretch on each side of a replacement."""
    assert [Gap(1, 2, 1, 3)] == list(list_gaps([(0, 0), (2, 3)], 3, 4))
