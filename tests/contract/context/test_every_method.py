"""The suite is about all of the store."""

from __future__ import annotations

import inspect
from pathlib import Path

from traceforge.context.api.context_store import Store


def test_every_method_of_the_store_is_used_by_the_contract() -> None:
    """A method that no test here calls is a method that nobody has seen on both databases."""
    here = Path(__file__).parent
    text = "".join(path.read_text() for path in [*here.glob("test_*.py"), here.parents[1] / "support/contexts.py"])
    methods = [name for name, value in vars(Store).items() if not name.startswith("_") and inspect.isroutine(value)]

    assert 30 < len(methods)
    assert [] == [name for name in methods if f".{name}(" not in text and f".{name}," not in text]
