"""What the tripwire needs only once a process refuses something, starts a child, or sends a request.

In: the arguments of audit events. Out: descriptions of children, requests that go to a model, and reports as bytes.
Never: imported before: most Pythons that a command starts do none of this, and must not start later for it.
"""

from __future__ import annotations

import json
import os
from typing import Any

from .child_processes import RUN_VARIABLE, isolating_flags, looks_like_python
from .model_call_rules import is_model_call

REQUEST_LINE_MAX = 8192


def is_model_request(data: Any, host: Any, port: Any) -> bool:
    """Whether the bytes that `http.client` sends begin a request whose path is a model's."""
    if not isinstance(data, (bytes, bytearray)):
        return False
    words = bytes(data[:REQUEST_LINE_MAX]).partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return False
    method, target, _ = words
    return is_model_call(method, target if "://" in target else f"http://{host}:{port}{target}")


def describe_child(event: str, args: Any, environment_position: int) -> tuple[str, bool]:
    """The program of a child that is about to be started, and whether it is a Python that cannot be instrumented."""
    environ = args[environment_position] if environment_position else None
    words = args[1] if event != "os.system" else ["sh"]
    words = [_text(os.fspath(word)) for word in words] if isinstance(words, (list, tuple)) else ["sh"]
    program = _text(args[0] or words[0]) if event != "os.system" else "sh"
    is_lost = looks_like_python(program) and bool(
        isolating_flags(words) or (environ is not None and not _has(environ, RUN_VARIABLE))
    )
    return os.path.basename(program), is_lost


def encode_report(head: dict[str, object]) -> bytes:
    return json.dumps(head).encode()


def _has(environ: Any, name: str) -> bool:
    try:
        return name in environ or name.encode() in environ
    except TypeError:  # a mapping of texts alone
        return False


def _text(value: Any) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, (bytes, bytearray)) else str(value)
