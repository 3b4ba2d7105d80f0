"""A reason of an approval says something."""

from __future__ import annotations

import click
import pytest

from traceforge.cli.approval_reason import check_reason

PLACEHOLDERS = (
    "...",
    "…",
    "-",
    "--",
    "???",
    "TODO",
    "todo:",
    "reason",
    "<reason>",
    "N/A",
    "tbd",
    "Your reason",
    "__",
)
REASONS = ("x", "shorter answers", "1", "ок", "理由", "reasonable", "TODO is done now", "none of the answers changed")


@pytest.mark.parametrize("reason", PLACEHOLDERS)
def test_a_placeholder_is_refused_with_an_example(reason: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is a placeholder and no reason: say why .* --reason \"") as caught:
        check_reason(reason)

    assert "--reason" == caught.value.param_hint


def test_a_missing_reason_is_refused_with_an_example() -> None:
    with pytest.raises(click.UsageError, match=r"Missing option '--reason': say why .* --reason \""):
        check_reason(None)


@pytest.mark.parametrize("reason", ["", " ", "\t\n"])
def test_an_empty_reason_is_refused(reason: str) -> None:
    with pytest.raises(click.BadParameter, match="must not be empty: say why"):
        check_reason(reason)


@pytest.mark.parametrize("reason", REASONS)
def test_a_short_reason_in_any_language_is_one(reason: str) -> None:
    """Without the white space around it."""
    assert reason == check_reason(f" {reason}\n")
