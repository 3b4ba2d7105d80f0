"""`context/responses/target_choice.py`: a choice that anybody can make again."""

from __future__ import annotations

import hashlib

import pytest

from traceforge.context.responses.target_choice import choose_target
from traceforge.ids import new_id, seeded

RELEASE = "alr_" + "0" * 26
SNAPSHOT = "snp_" + "0" * 26
VECTOR = 98177561121918982
PLACE = 0


def _point(release_id: str, snapshot_id: str) -> int:
    text = f"traceforge.choice.v1\nrelease_id:30:{release_id}\nsnapshot_id:30:{snapshot_id}\n"
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


def test_the_choice_is_the_point_on_the_line_of_weights() -> None:
    """Recomputed by hand for many weights: each target has the stretch behind those before it."""
    for total in range(2, 60):
        point = _point(RELEASE, SNAPSHOT) % total

        assert point == choose_target(RELEASE, SNAPSHOT, [1] * total)
        assert (0 if point < total // 2 else 1) == choose_target(RELEASE, SNAPSHOT, [total // 2, total - total // 2])


def test_the_choice_is_the_same_for_ever() -> None:
    """One vector, written down; the documentation has the same."""
    assert VECTOR == _point(RELEASE, SNAPSHOT)
    assert PLACE == choose_target(RELEASE, SNAPSHOT, [90, 9, 1])


def test_one_target_is_always_chosen() -> None:
    """Whatever its weight is."""
    assert {0} == {choose_target(RELEASE, new_id("snp"), [weight]) for weight in (1, 7, 1_000_000)}


@pytest.mark.parametrize("weights", [[1, 1], [90, 9, 1], [1, 2, 3, 4], [1_000_000] * 3 + [500_000]])
def test_snapshots_are_spread_as_the_weights_say(weights: list[int]) -> None:
    """20,000 snapshots: the chi-square statistic stays below what chance exceeds once in a million."""
    count = 20_000
    chosen = [0] * len(weights)
    with seeded(20_260_109):
        release = new_id("alr")
        for _ in range(count):
            chosen[choose_target(release, new_id("snp"), weights)] += 1

    expected = [count * weight / sum(weights) for weight in weights]
    statistic = sum((observed - wanted) ** 2 / wanted for observed, wanted in zip(chosen, expected, strict=True))

    assert {1: 23.93, 2: 27.63, 3: 30.66}[len(weights) - 1] > statistic  # of as many degrees of freedom


def test_another_release_spreads_the_same_snapshots_anew() -> None:
    """Both ids count: of two releases with equal weights, half of the choices agree."""
    with seeded(7):
        snapshots = [new_id("snp") for _ in range(4000)]
        first, other = new_id("alr"), new_id("alr")
    agreed = sum(choose_target(first, name, [1, 1]) == choose_target(other, name, [1, 1]) for name in snapshots)

    assert 1800 < agreed < 2200
