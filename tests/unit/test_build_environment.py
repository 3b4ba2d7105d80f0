"""Whether a run is a build of a CI service, and which variables decide."""

from __future__ import annotations

import pytest

from traceforge.build_environment import build_environment, frozen_environment, is_ci


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("1", True), ("yes", True), ("", False), ("0", False), ("false", False), ("False ", False)],
)
def test_ci_follows_the_usual_convention(value: str, expected: bool) -> None:
    """Empty, 0 and false say no; everything else says yes."""
    assert expected is is_ci({"CI": value})


def test_without_the_variable_it_is_not_a_build() -> None:
    assert not is_ci({})


def test_frozen_variables_do_not_follow_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the end of the block."""
    with frozen_environment({"CI": "true"}):
        monkeypatch.setenv("CI", "false")
        inside = is_ci()

    assert (True, False) == (inside, is_ci())
    assert "PATH" in build_environment()
