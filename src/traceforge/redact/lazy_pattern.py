"""Expressions that are compiled at their first use.

In: an expression of `re`. Out: the methods of its compiled pattern. Never: compiles when a module is imported: every
process of the product imports the detectors, and few of their expressions are ever used in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, AnyStr, Generic

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "sub")


class LazyPattern(Generic[AnyStr]):
    """A pattern of `re`, by its methods. Threads may compile it twice, which does no harm; none waits for another."""

    findall: Callable[..., list[AnyStr]]
    finditer: Callable[..., Iterator[re.Match[AnyStr]]]
    fullmatch: Callable[..., re.Match[AnyStr] | None]
    match: Callable[..., re.Match[AnyStr] | None]
    search: Callable[..., re.Match[AnyStr] | None]
    sub: Callable[..., AnyStr]

    def __init__(self, expression: AnyStr, flags: int = 0) -> None:
        self._expression: AnyStr = expression
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (a method of the pattern)
        """Compile, and keep the methods: afterwards each is an ordinary attribute."""
        if name not in _METHODS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        pattern = re.compile(self._expression, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(pattern, method))
        return getattr(pattern, name)
