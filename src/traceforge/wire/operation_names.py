"""Names of operations of an HTTP API that no dialect understands: `files.content` for `GET /v1/files/file-1/content`.

In: a method and a path. Out: a name for people, as an SDK would call it; "" where the path is not that of an API.
Never: part of a key, of a file or of a comparison: another version may call an operation something else.

    GET    /v1/files                      files.list
    POST   /v1/files                      files.create
    GET    /v1/files/file-1               files.retrieve
    DELETE /v1/files/file-1               files.delete
    POST   /v1/messages/count_tokens      messages.count_tokens
    POST   /v1beta/models/m:countTokens   models.countTokens

A request to a tool server is named by its method and what it asks for, and a function by its name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from traceforge.canon import JSON
from traceforge.wire.endpoints import find_path_endpoint

NAMES_CACHED = 1024
# Whose host is the name of a server that the application starts, or of a function (`capture/hook/*_messages.py`).
TOOL_SCHEMES = ("mcp://", "tool://")
PATH_LENGTH_MAX = 2000  # Longer ones have no name: the expression below looks at each slash.

# What comes before the first word of an operation. An address without any of it is no API: a web page, a download.
_BASE = (
    r"\A(?:.*?/)?(?P<upload>upload/)?(?:v[0-9]+[a-z0-9]*|api|openai)/(?:v[0-9]+[a-z0-9]*/|openai/|organizations/[^/]+/)*"
    r"(?:projects/[^/]+/)?(?:locations/[^/]+/)?(?:publishers/[^/]+/)?(?:deployments/[^/]+/)?(?=[^/])"
)
_WORD = r"[a-z]+(?:[_-][a-z]+)*|[a-z]+(?:[A-Z][a-z]+)+"
# Words that follow the name of a collection. Anything else there is the id of one of its members.
_WORDS_BELOW = frozenset(
    {
        "archive", "batches", "cancel", "certificates", "checkpoints", "chunks", "client_secrets", "compact",
        "complete", "completions", "content", "count_tokens", "download", "edits", "embeddings", "events",
        "expire", "file_batches", "files", "generations", "input_items", "input_tokens", "invites", "items",
        "jobs", "members", "messages", "models", "parts", "pause", "permissions", "ps", "pull", "push",
        "resume", "results", "roles", "runs", "search", "sessions", "speech", "steps", "submit_tool_outputs",
        "tokenize", "transcription_sessions", "transcriptions", "translations", "tunedModels", "unarchive",
        "users", "variations", "versions", "voices",
    }
)  # fmt: skip
# Words that name what is done, or one thing of which there are no others.
_ACTIONS = frozenset({"count_tokens", "input_tokens", "ps", "results", "submit_tool_outputs"})
_VERBS = {"GET": "list", "POST": "create", "PUT": "replace", "PATCH": "update", "DELETE": "delete", "HEAD": "head"}
_TARGETS = ("name", "uri")  # What a tool server is asked for: a tool or a prompt, or a resource.
_MEMBER_VERBS = {**_VERBS, "GET": "retrieve", "POST": "update"}


@lru_cache(NAMES_CACHED)
def name_operation(method: str, path: str) -> str:
    """The name of an operation, without a verb if `method` is empty; "" for an endpoint of a dialect, and for a path
    that does not look like an API.
    """
    if len(path) > PATH_LENGTH_MAX or find_path_endpoint(method or "POST", path).dialect is not None:
        return ""
    base = re.match(_BASE, path)
    if base is None:
        return ""
    segments = [segment for segment in path[base.end() :].split("/") if segment]
    last, colon, action = segments[-1].rpartition(":")
    if colon and last:
        segments[-1] = last
    words, is_member = _split_words([unquote(segment) for segment in segments])
    if not words:
        return ""
    if last == "count-tokens":
        words.append("count_tokens")  # Claude on Vertex: in place of a model
    elif colon and last:
        words.append(action)
    elif base["upload"]:
        words.append("upload")
    elif method and (is_member or _is_collection(words[-1])):
        words.append((_MEMBER_VERBS if is_member else _VERBS).get(method.upper(), method.lower()))
    return ".".join(words)


def name_tool_operation(request: JSON) -> str:
    """`tools/call find_dish` for a request to a tool server, `tool find_dish` for the call of a function; "" for any
    other body.
    """
    if not isinstance(request, dict):
        return ""
    if isinstance(request.get("tool"), str):
        return f"tool {request['tool']}"
    if not isinstance(request.get("method"), str):
        return ""
    params = request.get("params")
    targets = [params.get(key) for key in _TARGETS] if isinstance(params, dict) else []
    return " ".join([str(request["method"]), *[target for target in targets if isinstance(target, str)][:1]])


def _split_words(segments: list[str]) -> tuple[list[str], bool]:
    """The words of a path without ids, and whether it ends with an id."""
    words: list[str] = []
    is_member = False
    for segment in segments:
        follows_collection = bool(words) and not is_member and _is_collection(words[-1])
        is_word = re.fullmatch(_WORD, segment) is not None
        if not is_word or (follows_collection and segment not in _WORDS_BELOW):
            is_member = bool(words)
            continue
        words.append(segment)
        is_member = False
    return words, is_member


def _is_collection(word: str) -> bool:
    return word.endswith("s") and word not in _ACTIONS
