"""The traceback of a call that was not answered: the lines of the application, without those of its SDK.

In: the error of a test, as pytest holds it. Out: how pytest shows it. Never: imports pytest, shortens another error,
or a traceback whose style the user chose (`--tb`). An SDK adds a hundred lines, a framework two thousand, between the
line of the test and the diff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .replayed_response import REFUSED_STATUS

REFUSAL = "TraceForge replay: "  # the beginning of every error with which a call is refused
NOTE = "traceback: only the lines of the application; pytest --tb=long shows the others"
CHAIN_MAX = 20  # An SDK wraps an error a few times.


def shorten_traceback(error: Any, config: Any, is_application: Callable[[str], bool]) -> Any | None:
    """The error with the frames of the application alone; None where it is to be shown as it is.

    `error` is a `pytest.ExceptionInfo`, `config` a `pytest.Config`, and the result what `getrepr` returns.
    """
    if config.getoption("tbstyle", "auto") != "auto" or config.getoption("fulltrace", False):
        return None
    if not _is_refusal(error.value):
        return None
    short = type(error).from_exc_info((error.type, error.value, error.tb))
    short.traceback = short.traceback.filter(lambda entry: is_application(str(entry.path)))
    if not short.traceback or len(short.traceback) == len(error.traceback):
        return None
    return short.getrepr(style="short", showlocals=config.getoption("showlocals", False), tbfilter=False, chain=False)


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a call was refused: as the error says itself, or one that it was raised from. Where the application
    calls the provider without an SDK, the error has the status alone.
    """
    for _ in range(CHAIN_MAX):
        if error is None:
            return False
        if REFUSAL in str(error) or _status(error) == REFUSED_STATUS:
            return True
        error = error.__cause__ or error.__context__
    return False


def _status(error: BaseException) -> Any:
    """The status of a response, as errors of httpx, requests and aiohttp have it; runs no code of theirs."""
    fields = vars(error)
    return fields.get("status", getattr(fields.get("response"), "status_code", None))
