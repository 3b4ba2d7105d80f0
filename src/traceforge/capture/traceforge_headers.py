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
LENGTH = len(PREFIX)
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
        found = name[:LENGTH].lower() == PREFIX
        if len(self) < NAMES_REMEMBERED:
            self[name] = found
        return found


is_ours = _IsOurs()


class Said(NamedTuple):
    """What a request's headers say about its call."""

    caller: Caller
    upstream: Headers  # without ours
    spoken: bool  # did the client send one of ours? Only then is it sent ours in return
    problems: list[str]  # one sentence for each header that could not be used


def read_headers(headers: Headers, known: Caller) -> Said:
    """Take our headers out; where they are silent, `known` counts."""
    if not are_spoken(headers):
        return Said(known, headers, False, [])
    ours = {name.lower(): value for name, value in headers if name[:LENGTH].lower() == PREFIX}
    upstream = tuple(header for header in headers if header[0][:LENGTH].lower() != PREFIX)
    problems: list[str] = []
    caller = Caller(
        source=_source(ours, problems) or known.source,
        scope=known.scope,
        session_id=_name(ours, SESSION_ID, problems) or known.session_id,
        step_index=_step(ours, problems, known.step_index),
        parent_trace_id=_name(ours, PARENT_TRACE_ID, problems) or known.parent_trace_id,
        state=_state(ours, problems, known),
    )
    return Said(caller, upstream, True, problems)


def are_spoken(headers: Headers) -> bool:
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


def _name(ours: dict[str, str], header: str, problems: list[str]) -> str:
    text = ours.get(header.lower(), "")
    if len(text) > NAME_LENGTH_MAX or not text.isprintable():
        problems.append(f"{header} must be at most {NAME_LENGTH_MAX} printable characters")
        return ""
    return text


def _step(ours: dict[str, str], problems: list[str], known: int | None) -> int | None:
    text = ours.get(STEP_INDEX.lower())
    if text is None:
        return known
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= STEP_MAX):
        problems.append(f"{STEP_INDEX} must be a whole number from 0")
        return known
    return int(text)


def _source(ours: dict[str, str], problems: list[str]) -> str:
    text = ours.get(SOURCE.lower(), "")
    if text and not (re.fullmatch(_SOURCE, text) and len(text) <= 4 * NAME_LENGTH_MAX and text.isprintable()):
        problems.append(f"{SOURCE} must be file:line:function")
        return ""
    return text


def _state(ours: dict[str, str], problems: list[str], known: Caller) -> dict[str, object] | None:
    text = ours.get(STATE.lower())
    if text is None:
        return known.state
    if len(text) > STATE_BYTES_MAX:
        problems.append(f"{STATE} is longer than {STATE_BYTES_MAX} bytes")
        return known.state
    try:
        value = parse_json(text.encode("latin-1"))  # HTTP's bytes as they came; JSON is UTF-8
    except (NotJSON, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict):
        problems.append(f"{STATE} must be a JSON object")
        return known.state
    return dict(value)
