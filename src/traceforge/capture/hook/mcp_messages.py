"""The messages of MCP (Model Context Protocol) as calls.

In: JSON-RPC messages of a client and of its server. Out: for each request of the client, an address, a body that two
runs have alike, and the lines of its answer; and the messages again. Never: does I/O, or knows a client library.

    address      mcp://<server>/<method>, or the server's own URL with /<method> behind it
    body         {"method": …, "params": …}, and other members if there are; without what a run makes up: the id, the
                 progress token and the trace context of the request, and the version of the client
    answer       one JSON message a line: what the server sent until its response, and the response. Ids and progress
                 tokens of the client are left out, and put back as those of the request that is answered. Behind a
                 request of the server, `{"id": …, "client": {"result": …}}`: how the client answered it, on which
                 depends what the server did next. In place of a response, `{"closed": true}`: the session ended
                 before there was one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Message = dict[str, Any]

ADDRESS_SCHEME = "mcp"
REFUSED_CODE = -32000  # JSON-RPC leaves the codes from here on to servers.
# Set for a server behind `traceforge mcp wrap` whose messages are watched in its client already.
WATCHED_VARIABLE = "TRACEFORGE_MCP_WATCHED"
# What a server says of itself. `record` asks for it each time, because asking changes nothing, and a changed tool
# changes what a model sees.
DESCRIPTIONS = frozenset(
    {
        "initialize", "ping", "prompts/list", "resources/list", "resources/templates/list", "server/discover",
        "tools/list",
    }
)  # fmt: skip
# Requests of a server whose answers decide what it does next, and that two runs answer alike. Not `roots/list`, which
# is answered with folders of a machine.
COMPARED_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage"})
_PROGRESS = "progressToken"
_VERSION = ("jsonrpc", "2.0")
_ID_TYPES = (str, int, float, type(None))
_CLIENTS = ("clientInfo", "io.modelcontextprotocol/clientInfo")  # of `initialize`, and in `_meta` of each request
_OF_RUN = frozenset({_PROGRESS, "traceparent", "tracestate", "baggage"})  # in `_meta`; the others: OpenTelemetry's
_MESSAGE_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{")
_SHELLS = re.compile(r"(?:ba|da|z|)sh|cmd")
_LANGUAGES = re.compile(rf"{_SHELLS.pattern}|(?:python|pypy)[\d.]*")
_LAUNCHERS = re.compile(rf"{_LANGUAGES.pattern}|uv|uvx|npx|pnpm|pnpx|yarn|node|bun|bunx|deno|pipx|docker|podman|env")
_LAUNCHER_WORDS = frozenset({"run", "tool", "exec", "dlx", "x", "/c"})
_CODE_OPTION = re.compile(r"-[a-z]*c\Z|/c\Z", re.IGNORECASE)  # of a shell or of Python: code follows
_SECRET_OPTION = re.compile(r"-.*(?:auth|bearer|cred|header|key|passw|secret|token)[^=]*\Z", re.IGNORECASE)
_VALUE_OPTIONS = frozenset(
    {
        "-e", "--env", "--env-file", "--eval", "-v", "--volume", "--from", "--with", "--directory", "--name", "-p",
        "--package",
    }
)  # fmt: skip


def name_server(command: str, arguments: Sequence[str]) -> str:
    """What a server is called in addresses: the program that a command starts, without its folder and version.

    Behind `traceforge mcp wrap`, it is the name of what is wrapped, so that both ways to watch it agree.
    """
    wrapped = find_wrapped(arguments)
    if wrapped is not None:
        return wrapped.name or (name_server(wrapped.words[0], wrapped.words[1:]) if wrapped.words else "server")
    name = _stem(command)
    if _LAUNCHERS.fullmatch(name):
        name = _find_program(name, arguments) or name
    return clean_name(name)


class WrappedServer(NamedTuple):
    """The server that a command line of `traceforge mcp wrap` names."""

    words: Sequence[str]
    name: str  # that it is to have; "" for that of its program


def find_wrapped(arguments: Sequence[str]) -> WrappedServer | None:
    """The server behind `mcp wrap … --` in the arguments of a command; None: it is not wrapped."""
    words = [*arguments]
    for position in range(len(words) - 2):
        if words[position : position + 2] == ["mcp", "wrap"] and "--" in words[position:]:
            end = words.index("--", position)
            return WrappedServer(words[end + 1 :], _find_name(words[position + 2 : end]))
    return None


def _find_name(options: Sequence[str]) -> str:
    name = ""
    for option, value in zip(options, [*options[1:], ""]):  # noqa: B905 (Python 3.9)
        if option == "--name":
            name = value
        elif option.startswith("--name="):
            name = option.partition("=")[2]
    return clean_name(name) if name else ""


def clean_name(name: str) -> str:
    """A name as a part of an address."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.") or "server"


def _find_program(launcher: str, arguments: Sequence[str]) -> str:
    """The program that a launcher starts: the module after `-m`, else the first word that is not an option.

    Of a line of code, which may hold a secret, only the program that a shell starts with it.
    """
    words = iter(arguments)
    for word in words:
        if word == "-m":
            return next(words, "")
        if _CODE_OPTION.match(word) and _LANGUAGES.fullmatch(launcher):
            line = " ".join(words).split() if _SHELLS.fullmatch(launcher) else []
            line = [part for part in line if "=" not in part and part != "exec"]
            return name_server(line[0], line[1:]) if line else ""
        if word in _VALUE_OPTIONS or _SECRET_OPTION.match(word):
            next(words, "")
        elif not word.startswith("-") and word not in _LAUNCHER_WORDS and "=" not in word:
            return _stem(word)
    return ""


def _stem(path: str) -> str:
    name = re.split(r"[/\\]", path)[-1]
    name = re.sub(r"(?<=.)(?:@|==|:)[^/]*\Z", "", name)  # the version of a package, or the tag of an image
    root, ending = os.path.splitext(name)
    return root if ending.lower() in (".py", ".js", ".mjs", ".cjs", ".ts", ".exe", ".cmd", ".sh") else name


def server_address(server: str) -> str:
    """The address of a server that is a child process."""
    return f"{ADDRESS_SCHEME}://{server}"


def request_url(address: str, method: str) -> str:
    """The URL of the call that a request is."""
    return f"{address.split('?', 1)[0].split('#', 1)[0].rstrip('/')}/{method}"


def parse_messages(line: bytes) -> Message | list[Message] | None:
    """The message in a line of a stream, or the messages of a batch; None where it holds neither.

    None also where an object has two members of one name: of two readers, each may take another one.
    """
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_collect_members)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return value if value and all(map(_is_message, value)) else None
    return value if _is_message(value) else None


def _collect_members(pairs: list[tuple[str, Any]]) -> Message:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("two members of one name")
    return members


def looks_like_message(line: bytes) -> bool:
    """Whether a client may read a message in a line in which `parse_messages` reads none: clients differ in the
    bytes, numbers and depths that they take. Lines of a log, which some servers write too, are no messages.
    """
    return _MESSAGE_START.match(line) is not None and (b"jsonrpc" in line or b"\\u" in line)


def _is_message(value: Any) -> bool:
    """Whether a value has the types of a JSON-RPC message, on which the functions below rely."""
    if not isinstance(value, dict) or not isinstance(value.get("params", {}), dict):
        return False
    if not isinstance((value.get("params") or {}).get("_meta") or {}, dict):
        return False
    return isinstance(value.get("method", ""), str) and isinstance(value.get("id"), _ID_TYPES)


def is_request(message: Message) -> bool:
    return "method" in message and "id" in message


def is_response(message: Message) -> bool:
    return "method" not in message and "id" in message


def progress_token(message: Message) -> Any:
    """The token under which the server is to report progress of a request; None: there is none."""
    meta = (message.get("params") or {}).get("_meta") or {}
    return meta.get(_PROGRESS)


def encode_request(message: Message) -> bytes:
    """The body of the call that a request is."""
    body: Message = {"method": message["method"]}
    body.update({name: value for name, value in message.items() if name != "id" and (name, value) != _VERSION})
    if "params" in message:
        body["params"] = _without_run(message["params"])
    return _encode(body)


def _without_run(params: Any) -> Any:
    """Parameters without what differs in each run, and with each version of the client library."""
    if not isinstance(params, dict):
        return params
    compared = _without_version(params)
    meta = compared.get("_meta")
    if isinstance(meta, dict):
        compared["_meta"] = _without_version({name: value for name, value in meta.items() if name not in _OF_RUN})
        if not compared["_meta"] and meta:
            del compared["_meta"]
    return compared


def _without_version(fields: Message) -> Message:
    """A copy of the fields that names the client without its version."""
    copied = {**fields}
    for client in _CLIENTS:
        if isinstance(copied.get(client), dict):
            copied[client] = {name: value for name, value in copied[client].items() if name != "version"}
    return copied


def encode_answer_line(message: Message) -> bytes:
    """A message of the server as a line of an answer."""
    recorded = {**message}
    if is_response(message):
        del recorded["id"]
    params = message.get("params")
    if isinstance(params, dict) and _PROGRESS in params:
        recorded["params"] = {name: value for name, value in params.items() if name != _PROGRESS}
    return encode_line(recorded)


def read_client_answer(message: Message) -> Message:
    """What the client answered a request of the server."""
    return {name: message[name] for name in ("result", "error") if name in message}


def encode_client_answer(message: Message) -> bytes:
    """The same as a line of the answer that the request of the server belongs to."""
    return encode_line({"id": message["id"], "client": read_client_answer(message)})


def is_client_answer(message: Message) -> bool:
    """Whether a line of an answer says what the client answered."""
    return isinstance(message.get("client"), dict) and "jsonrpc" not in message


CLOSED_LINE = b'{"closed":true}\n'


def is_closing(message: Message) -> bool:
    """Whether a line of an answer says that the session ended there."""
    return message.get("closed") is True and "jsonrpc" not in message


def decode_answer(body: bytes, request: Message) -> list[Message]:
    """The messages of a recorded answer, for the request that is answered now.

    Raises:
        ValueError: it is not the answer of an MCP server.
    """
    token = progress_token(request)
    messages = []
    for line in body.splitlines():
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("a line that is no message")
        if message.get("method") == "notifications/progress":
            if token is None:
                continue  # The client of today has not asked for it.
            message["params"] = {_PROGRESS: token, **(message.get("params") or {})}
        elif "result" in message or "error" in message:
            message["id"] = request["id"]
        messages.append(message)
    return messages


def make_error(request: Message, reason: str) -> Message:
    """The response to a request that was not recorded."""
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": REFUSED_CODE, "message": reason}}


def read_refusal(chunks: Iterable[tuple[float, bytes]]) -> str:
    """The sentence in the response with which a replay refuses a call."""
    try:
        return str(json.loads(b"".join([data for _, data in chunks]))["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "TraceForge replay: the request could not be answered"


def encode_line(value: Any) -> bytes:
    """A message, or a batch, as a line of a stream."""
    return _encode(value) + b"\n"


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
