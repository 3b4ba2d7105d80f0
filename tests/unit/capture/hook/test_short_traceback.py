"""The traceback of a refused call in pytest: what is left out, and when nothing is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from traceforge.capture.hook.short_traceback import shorten_traceback

REFUSED = "418: TraceForge replay: no recorded call matches"
SDK = """
def send(message):
    try:
        raise OSError(message)
    except OSError as error:
        raise ValueError(WRAPPED or message) from error
"""


def fail_in_sdk(message: str, wrapped: str = "") -> pytest.ExceptionInfo[ValueError]:
    """An error that an SDK raises from another one, while the application calls it."""
    namespace: dict[str, Any] = {"WRAPPED": wrapped}
    exec(compile(SDK, "/env/site-packages/sdk.py", "exec"), namespace)
    send: Callable[[str], None] = namespace["send"]
    with pytest.raises(ValueError, match=wrapped or message) as error:
        send(message)
    return error


def shorten(error: pytest.ExceptionInfo[ValueError], **options: Any) -> str | None:
    class Config:
        def getoption(self, name: str, default: Any) -> Any:
            return options.get(name, default)

    short = shorten_traceback(error, Config(), lambda file: file == __file__)
    return None if short is None else str(short)


@pytest.mark.parametrize("wrapped", ["", "the framework failed"])
def test_the_lines_of_an_sdk_are_left_out(wrapped: str) -> None:
    """Also where the error that reaches the test says nothing of its cause."""
    shown = shorten(fail_in_sdk(REFUSED, wrapped))

    assert shown is not None
    assert "send(message)" in shown
    assert f"E   ValueError: {wrapped or REFUSED}" in shown
    assert "sdk.py" not in shown


@pytest.mark.parametrize("fields", [{"response": SimpleNamespace(status_code=418)}, {"status": 418}])
def test_an_error_with_the_status_of_a_refusal_is_one(fields: dict[str, Any]) -> None:
    """`raise_for_status` of httpx, requests and aiohttp does not say what the body says."""
    error = fail_in_sdk("I'm a teapot")
    vars(error.value).update(fields)

    shown = shorten(error)

    assert shown is not None
    assert "sdk.py" not in shown


@pytest.mark.parametrize("options", [{"tbstyle": "long"}, {"tbstyle": "native"}, {"fulltrace": True}])
def test_a_style_that_somebody_chose_is_kept(options: dict[str, Any]) -> None:
    assert shorten(fail_in_sdk(REFUSED), **options) is None


def test_another_error_is_shown_as_it_is() -> None:
    """Its cause may be in a package."""
    error = fail_in_sdk("the disk is full")
    vars(error.value)["response"] = SimpleNamespace(status_code=500)

    assert shorten(error) is None


def test_an_error_without_a_line_of_the_application_is_shown_as_it_is() -> None:
    error = fail_in_sdk(REFUSED)
    config: Any = type("Config", (), {"getoption": lambda self, name, default: default})()

    assert shorten_traceback(error, config, lambda _: False) is None
