"""TraceForge's own headers: what a caller says about a call, and what it is told.

In: the headers of a request. Out: what they say, the headers that go upstream, and what was wrong with ours. Never:
sends one of ours upstream, or lets a malformed one stop a call that is being recorded.
"""

from __future__ import annotations

import re

from traceforge.canon import parse_json
from traceforge.errors import NotJSON
from traceforge.exchange import Caller, Headers
from traceforge.tuples import NamedTuple

PREFIX = "x-traceforge-"
PREFIX_LENGTH = len(PREFIX)
SESSION_ID = "X-TraceForge-Session-ID"
STEP_INDEX = "X-TraceForge-Step-Index"
PARENT_TRACE_ID = "X-TraceForge-Parent-Trace-ID"
STATE = "X-TraceForge-State"
SOURCE = "X-TraceForge-Source"
TRACE_ID = "X-TraceForge-Trace-ID"
NEXT_STEP = "X-TraceForge-Next-Step"

NAMES_REMEMBERED = 1000
STATE_BYTES_MAX = 64 << 10
NAME_LENGTH_MAX = 256  # of a session or a parent: longer is a mistake, and would be stored with every call
STEP_MAX = 2**53 - 1

_SOURCE = r".+:[0-9]{1,9}:[^:]*"


class _IsOurs(dict[str, bool]):
    """Is a header of this name ours? Clients send the same names again and again."""

    def __missing__(self, name: str) -> bool:
        found = name[:PREFIX_LENGTH].lower() == PREFIX
        if len(self) < NAMES_REMEMBERED:
            self[name] = found
        return found


is_ours = _IsOurs()


class HeaderClaims(NamedTuple):
    """What a request's headers say about its call."""

    caller: Caller
    upstream: Headers  # without ours
    has_own_headers: bool  # did the client send one of ours? Only then is it sent ours in return
    problems: list[str]  # one sentence for each header that could not be used


def read_headers(headers: Headers, default: Caller) -> HeaderClaims:
    """Take our headers out; where they are silent, `known` counts."""
    if not has_own_headers(headers):
        return HeaderClaims(default, headers, False, [])
    own = {name.lower(): value for name, value in headers if name[:PREFIX_LENGTH].lower() == PREFIX}
    upstream = tuple(header for header in headers if header[0][:PREFIX_LENGTH].lower() != PREFIX)
    problems: list[str] = []
    caller = Caller(
        source=_read_source(own, problems) or default.source,
        scope=default.scope,
        session_id=_read_name(own, SESSION_ID, problems) or default.session_id,
        step_index=_read_step(own, problems, default.step_index),
        parent_trace_id=_read_name(own, PARENT_TRACE_ID, problems) or default.parent_trace_id,
        state=_read_state(own, problems, default),
    )
    return HeaderClaims(caller, upstream, True, problems)


def has_own_headers(headers: Headers) -> bool:
    """Is one of them ours?"""
    for name, _ in headers:  # noqa: SIM110 (a third of the time that `any` takes)
        if is_ours[name]:
            return True
    return False


def reply_headers(trace_id: str, session_id: str, step_index: int | None) -> Headers:
    """What a client that spoke to us is told."""
    session: Headers = ((SESSION_ID, session_id),) if session_id else ()
    step: Headers = ((NEXT_STEP, str(step_index + 1)),) if step_index is not None else ()
    return ((TRACE_ID, trace_id), *session, *step)


def _read_name(own: dict[str, str], header: str, problems: list[str]) -> str:
    text = own.get(header.lower(), "")
    if len(text) > NAME_LENGTH_MAX or not text.isprintable():
        problems.append(f"{header} must be at most {NAME_LENGTH_MAX} printable characters")
        return ""
    return text


def _read_step(own: dict[str, str], problems: list[str], default: int | None) -> int | None:
    text = own.get(STEP_INDEX.lower())
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= STEP_MAX):
        problems.append(f"{STEP_INDEX} must be a whole number from 0")
        return default
    return int(text)


def _read_source(own: dict[str, str], problems: list[str]) -> str:
    text = own.get(SOURCE.lower(), "")
    if text and not (re.fullmatch(_SOURCE, text) and len(text) <= 4 * NAME_LENGTH_MAX and text.isprintable()):
        problems.append(f"{SOURCE} must be file:line:function")
        return ""
    return text


def _read_state(own: dict[str, str], problems: list[str], default: Caller) -> dict[str, object] | None:
    text = own.get(STATE.lower())
    if text is None:
        return default.state
    if len(text) > STATE_BYTES_MAX:
        problems.append(f"{STATE} is longer than {STATE_BYTES_MAX} bytes")
        return default.state
    try:
        value = parse_json(text.encode("latin-1"))  # HTTP's bytes as they came; JSON is UTF-8
    except (NotJSON, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict):
        problems.append(f"{STATE} must be a JSON object")
        return default.state
    return dict(value)
