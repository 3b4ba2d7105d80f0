"""The assertion that calls a function of the project: python.

The function is imported, so its module runs here, as a test's module does. It gets an `Answer`, and the `arguments`
of the assertion by name. It returns whether the assertion holds, or raises `AssertionError` with what it found.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.outcome import Outcome, decide, unchecked
from traceforge.checks.formats.assertion_types import PythonAssertion


def check_python(assertion: PythonAssertion, answer: Answer) -> Outcome:
    """What the function says. One that cannot be called, or that returns no bool, checked nothing."""
    expected = f"{assertion.function} holds"
    try:
        result = _load_function(assertion.function)(answer, **assertion.arguments)
    except AssertionError as exc:
        return decide(False, expected, str(exc) or "AssertionError", assertion.function)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 (of the project's own code: `sys.exit(0)` must end no run as green)
        return unchecked(expected, f"it raised {type(exc).__name__}", assertion.function)
    if not isinstance(result, bool):
        return unchecked(expected, f"it returned {type(result).__name__}, not bool", assertion.function)
    return decide(result, expected, f"it returned {result}", assertion.function)


@lru_cache(maxsize=256)
def _load_function(path: str) -> Any:  # noqa: ANN401 (a function of the project)
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
