"""TraceForge's own headers (`X-TraceForge-…`): what a client says about its call, and what it gets back.

In: the headers of a request. Out: their claims about the call, the headers that go upstream, and what was wrong with
ours. Never: sends one of them upstream, or lets a malformed one stop a call that is being recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from traceforge.canon import parse_json
from traceforge.capture.hook.guarded_call import HEADER_PREFIX, is_traceforge_header
from traceforge.errors import NotJSON
from traceforge.exchange import Caller, Headers

SESSION_ID = "X-TraceForge-Session-ID"
STEP_INDEX = "X-TraceForge-Step-Index"
PARENT_TRACE_ID = "X-TraceForge-Parent-Trace-ID"
STATE = "X-TraceForge-State"
SOURCE = "X-TraceForge-Source"
TRACE_ID = "X-TraceForge-Trace-ID"
NEXT_STEP = "X-TraceForge-Next-Step"

STATE_BYTES_MAX = 64 << 10
NAME_LENGTH_MAX = 256  # of a session or a parent: longer is a mistake, and would be stored with every call
STEP_MAX = 2**53 - 1

_SOURCE = r".+:[0-9]{1,9}:[^:]*"


class HeaderClaims(Struct, frozen=True):
    """What the headers of a request claim about its call."""

    caller: Caller
    upstream: Headers  # without ours
    wants_headers: bool  # the client gets ours with the response; not where it only says its call site
    problems: list[str]  # one sentence for each header that could not be used


def read_headers(headers: Headers, default: Caller) -> HeaderClaims:
    """Take our headers out; `default` is what is known without them."""
    if not has_traceforge_headers(headers):
        return HeaderClaims(default, headers, False, [])
    own = {name.lower(): value for name, value in headers if is_traceforge_header(name)}
    upstream = tuple(header for header in headers if not is_traceforge_header(header[0]))
    problems: list[str] = []
    caller = Caller(
        source=_read_source(own, problems) or default.source,
        scope=default.scope,
        session_id=_read_name(own, SESSION_ID, problems) or default.session_id,
        step_index=_read_step(own, problems, default.step_index),
        parent_trace_id=_read_name(own, PARENT_TRACE_ID, problems) or default.parent_trace_id,
        state=_read_state(own, problems, default),
        worker=default.worker,
    )
    return HeaderClaims(caller, upstream, own.keys() != {SOURCE.lower()}, problems)


def has_traceforge_headers(headers: Headers) -> bool:
    """Whether one of the headers is TraceForge's."""
    for name, _ in headers:  # noqa: SIM110 (a replay looks at every header: a generator takes twice as long)
        if name.lower().startswith(HEADER_PREFIX):
            return True
    return False


def apply_call_site(headers: Headers, call_site: str, fallback: Callable[[], str]) -> tuple[Headers, str]:
    """The headers and the call site to record: the stack decides, then the caller's header, then the fallback."""
    if not call_site:
        return headers, fallback()
    source = SOURCE.lower()
    if any(name.lower() == source for name, _ in headers):
        return tuple((name, call_site if name.lower() == source else value) for name, value in headers), call_site
    return headers, call_site


def make_response_headers(trace_id: str, session_id: str, step_index: int | None) -> Headers:
    """Headers for the response to a client that uses TraceForge's headers."""
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
    text = _decode_utf8(own.get(SOURCE.lower(), ""))
    if text and not (re.fullmatch(_SOURCE, text) and len(text) <= 4 * NAME_LENGTH_MAX and text.isprintable()):
        problems.append(f"{SOURCE} must be file:line:function")
        return ""
    return text


def _decode_utf8(text: str) -> str:
    """A header is read as Latin-1; names of files and functions are UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _read_state(own: dict[str, str], problems: list[str], default: Caller) -> dict[str, object] | None:
    text = own.get(STATE.lower())
    if text is None:
        return default.state
    if len(text) > STATE_BYTES_MAX:
        problems.append(f"{STATE} is longer than {STATE_BYTES_MAX} bytes")
        return default.state
    try:
        value = parse_json(text.encode("latin-1"))  # the bytes of the header; JSON is UTF-8
    except (NotJSON, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict):
        problems.append(f"{STATE} must be a JSON object")
        return default.state
    return dict(value)
