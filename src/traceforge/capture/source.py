"""Whose word counts about a call site: the stack's, then the caller's header's, then a fallback.

In: headers, and what the stack said. Out: headers and a source that agree. Never: looks at a stack itself.
"""

from __future__ import annotations

from collections.abc import Callable

from traceforge.capture.traceforge_headers import SOURCE
from traceforge.exchange import Headers

_NAME = SOURCE.lower()
_LENGTH = len(_NAME)


def apply_call_site(headers: Headers, call_site: str, fallback: Callable[[], str]) -> tuple[Headers, str]:
    """The headers to read, in which a call site that was found stands in for one that was sent."""
    if not call_site:
        return headers, fallback()
    for name, _ in headers:
        if len(name) == _LENGTH and name.lower() == _NAME:
            return tuple((name, call_site if name.lower() == _NAME else value) for name, value in headers), call_site
    return headers, call_site
