"""The traceback of a call that was not answered: the lines of the application, without those of its SDK.

In: the error of a test. Out: how pytest shows it. Never: shortens another error, or a traceback whose style somebody
has chosen. An SDK adds a hundred lines, a framework two thousand, between the line of the test and the diff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

REFUSAL = "TraceForge replay: "  # the beginning of every error with which a call is refused
NOTE = "traceback: only the lines of the application; pytest --tb=long shows the others"
CHAIN_MAX = 20  # An SDK wraps an error a few times.


def shorten_traceback(
    error: pytest.ExceptionInfo[BaseException], config: pytest.Config, is_application: Callable[[str], bool]
) -> Any | None:  # noqa: ANN401 (pytest's type for it is private)
    """The error with the frames of the application alone; None where it is to be shown as it is."""
    if config.getoption("tbstyle", "auto") != "auto" or config.getoption("fulltrace", False):
        return None
    if not _is_refusal(error.value):
        return None
    short = pytest.ExceptionInfo.from_exc_info((error.type, error.value, error.tb))
    short.traceback = short.traceback.filter(lambda entry: is_application(str(entry.path)))
    if not short.traceback or len(short.traceback) == len(error.traceback):
        return None
    return short.getrepr(style="short", showlocals=config.getoption("showlocals", False), tbfilter=False, chain=False)


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a call was refused: as the error says itself, or one that it was raised from."""
    for _ in range(CHAIN_MAX):
        if error is None:
            return False
        if REFUSAL in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
