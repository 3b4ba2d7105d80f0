"""A call as text to paste: a curl command, a Python program, or a test. Pure.

In: a trace, which is redacted. Out: text in which the API key is a variable. Never: a text of the call that a shell
or Python reads as anything but one literal, or a character that a terminal would hide.
"""

from __future__ import annotations

import pprint
import re
import shlex
from typing import NamedTuple
from urllib.parse import quote

from traceforge.canon import JSON, json_bytes
from traceforge.capture.run.credentials import upstream_key_variable
from traceforge.terminal import escape_json
from traceforge.traces.trace_format import Trace
from traceforge.ui.views.trace_view import header_lines
from traceforge.wire.unified import as_object, as_text

LANGUAGES = ("curl", "python", "test")
WIDTH = 100
TIMEOUT_SECONDS = 120

# Headers that change what a provider answers; the others describe the client that sent them.
_KEPT_HEADER = re.compile(r"content-type|anthropic-(version|beta)|openai-beta", re.IGNORECASE)
_KEY_HEADERS = {"authorization": "Bearer ", "x-api-key": "", "api-key": "", "x-goog-api-key": ""}
_NOT_IN_URLS = re.compile(r"[^\x21-\x7e]")  # Sent percent-encoded, and some of them would be invisible.
_TOKEN = re.compile(r"[A-Za-z0-9-]+\Z")


class _Call(NamedTuple):
    method: str
    url: str
    headers: list[tuple[str, str]]
    key_header: str  # "" if no key was sent.
    key_variable: str
    body: JSON
    is_stream: bool
    status: int
    trace_id: str


def copy_call(trace: Trace, language: str) -> str | None:
    """A call in one of the LANGUAGES; None where the trace does not have it as it was sent, or as no text."""
    body, wire = trace.body, as_object(trace.body.get("wire"))
    sent = body.get("provider_request")
    url, method = as_text(wire.get("url")), as_text(wire.get("method"))
    is_binary = isinstance(sent, dict) and sent.keys() == {"b64"}
    if not re.match(r"https?://", url) or not method.isalpha() or is_binary:
        return None
    lines = [line.partition(":") for line in header_lines(wire.get("request_headers"))]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in lines if _TOKEN.match(name.strip())]
    key_header = next((name for name, _ in headers if name in _KEY_HEADERS), "")
    status = wire.get("status")
    call = _Call(
        method.upper(),
        _NOT_IN_URLS.sub(lambda match: quote(match[0].encode(errors="surrogatepass")), url),
        [(name, value) for name, value in headers if _KEPT_HEADER.fullmatch(name)],
        key_header,
        upstream_key_variable(as_text(body.get("provider")) or "model"),
        sent,
        as_object(body.get("request")).get("stream") is True,
        status if isinstance(status, int) else 200,
        trace.id,
    )
    return _WRITERS[language](call)


def _curl(call: _Call) -> str:
    parts = [f"curl{' -N' if call.is_stream else ''} -X {call.method} {shlex.quote(call.url)}"]
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in call.headers]
    if call.key_header:
        parts.append(f'-H "{call.key_header}: {_KEY_HEADERS[call.key_header]}${call.key_variable}"')
    if call.body not in (None, ""):
        parts.append(f"--data-raw {shlex.quote(_body_text(call.body))}")
    return " \\\n  ".join(parts) + "\n"


def _body_text(body: JSON) -> str:
    return body if isinstance(body, str) else escape_json(json_bytes(body)).decode()


def _python(call: _Call) -> str:
    imports = ["import os\n", "import httpx\n"] if call.key_header else ["import httpx\n"]
    return "\n".join([*imports, *_request_lines(call, ""), "print(response.text)", ""])


def _test(call: _Call) -> str:
    name = f"test_call_{re.sub(r'[^0-9a-f]', '', call.trace_id.lower())[:8]}"
    imports = ["import os\n", "import httpx\n"] if call.key_header else ["import httpx\n"]
    lines = [
        *imports,
        "",
        f"def {name}() -> None:",
        '    """Record it: traceforge record -- pytest; approve it; then run it: traceforge test -- pytest."""',
        *_request_lines(call, "    "),
        f"    assert response.status_code == {call.status}",
        "",
    ]
    return "\n".join(lines)


def _request_lines(call: _Call, indent: str) -> list[str]:
    headers = [f"{name!r}: {value!r}" for name, value in call.headers]
    if call.key_header:
        prefix = _KEY_HEADERS[call.key_header]
        headers.append(f'"{call.key_header}": f"{prefix}{{os.environ[\'{call.key_variable}\']}}"')
    lines = [
        "response = httpx.request(",
        f"    {call.method!r},",
        f"    {call.url!r},",
        f"    headers={{{', '.join(headers)}}},",
        *_body_lines(call.body),
        f"    timeout={TIMEOUT_SECONDS},",
        ")",
    ]
    return [f"{indent}{line}" for line in lines]


def _body_lines(body: JSON) -> list[str]:
    if body in (None, ""):
        return []
    name = "content" if isinstance(body, str) else "json"
    text = pprint.pformat(body, width=WIDTH, sort_dicts=False)
    margin = "\n" + " " * len(f"    {name}=")
    return f"    {name}={text.replace(chr(10), margin)},".split("\n")


_WRITERS = {"curl": _curl, "python": _python, "test": _test}
