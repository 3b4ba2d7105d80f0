"""`compare/facts.py`: numbers, dates, links and names are found, and another spelling is not a difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.compare.facts import compare_facts, find_facts


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("It costs $1,234.50, or 5 % more.", ["$1234.5", "5%"]),
        ("From -3 to 10-20 and 1e5.", ["-3", "10", "20", "1e5"]),
        ("On 2026-01-09 at 10:30, or 2026-01-09T10:30:00Z.", ["2026-01-09", "10:30", "2026-01-09T10:30:00Z"]),
        ("Version 1.2.3 on A4 with gpt4 and the 3rd.", ["Version", "1.2.3", "A4", "gpt4", "3rd"]),
        ("See https://a.example/x?y=1. Or http://b.", ["https://a.example/x?y=1", "http://b"]),
        ("We saw three of Marie Curie's labs in Paris.", ["3", "Marie", "Curie", "Paris"]),
        ("The NASA team and _Anna_ met McDonald; I was there.", ["NASA", "Anna", "McDonald"]),
        ("nothing here. The end", []),
        ("", []),
    ],
)
def test_facts_are_found_in_their_plain_spelling(text: str, order: list[str]) -> None:
    """Numbers with sign and unit, dates, links, codes and names; not common words."""
    assert order == list(find_facts(text).order)


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("It is 5.", "It is 6.", ("5",), ("6",)),
        ("Paris.", "Lyon.", ("Paris",), ("Lyon",)),
        ("The capital is Paris.", "The capital is Lyon.", ("Paris",), ("Lyon",)),
        ("on 2026-01-09", "on 2026-01-10", ("2026-01-09",), ("2026-01-10",)),
        ("see https://a.b/c", "see https://a.b/d", ("https://a.b/c",), ("https://a.b/d",)),
        ("5 and 5", "5", ("5",), ()),
        ("10 20", "1020", ("10", "20"), ("1020",)),
    ],
)
def test_a_fact_that_only_one_text_states_is_found(
    before: str, after: str, removed: tuple[str, ...], added: tuple[str, ...]
) -> None:
    """Also at the beginning of a sentence."""
    change = compare_facts(before, after)

    assert (removed, added) == (change.removed, change.added)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("It has 1,000 items.", "There are 1000 items."),
        ("It is 2.50 high.", "It is 2.5 tall."),
        ("There are three ways.", "There are 3 ways."),
        ("Paris's river is long.", "The river of Paris is long."),
        ("Software helps.", "It is software."),
        ("Great, it works.", "Yes, it works."),
    ],
)
def test_another_spelling_of_a_fact_is_the_same_fact(before: str, after: str) -> None:
    """Separators, zeros, number words, possessives and a capital at the beginning."""
    assert not compare_facts(before, after)


def test_facts_in_another_order_are_a_difference() -> None:
    """ "A owes B" is not "B owes A"."""
    change = compare_facts("Alice owes Bob 5.", "Bob owes Alice 5.")

    assert (False, True) == (bool(change), change.reordered)


@given(st.text())
def test_a_text_has_the_same_facts_as_itself(text: str) -> None:
    """And no text raises."""
    change = compare_facts(text, text)

    assert (False, False) == (bool(change), change.reordered)
