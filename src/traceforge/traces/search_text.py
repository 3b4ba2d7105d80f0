"""The searchable text of a trace, and the SQLite expression of a query.

No query is invalid: everything is words, "phrases" and prefix*. In scripts that are written without spaces, each
character is a word, and a query of several characters is a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceforge.canon import JSON, JSONObject

TEXT_LENGTH_MAX = 200_000  # Of one trace. The beginning of a longer one is enough to find it.
TERMS_MAX = 200  # Of one query. The first terms of a longer one are enough.
BLOB_LENGTH_MIN = 2_000  # A text this long without a space is data, such as a picture.

# Patterns are compiled when they are first used: every `trace list` imports this module.
_UNSPACED = r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
_GAP = rf"(?<={_UNSPACED})([\x02\x03]?)  ?([\x02\x03]?)(?={_UNSPACED})"
_TERM = r'"([^"]*)"?|(\S+)'
_UNSEARCHED_FIELDS = frozenset(  # ids, types and counts
    {
        "id", "object", "model", "role", "type", "created", "finish_reason", "provider_finish_reason", "usage",
        "service_tier", "system_fingerprint", "encrypted_content", "signature",
    }
)  # fmt: skip


def trace_text(body: JSONObject) -> str:
    """All texts of a call, one line each: of the unified request and response, or else of the bodies."""
    request, metadata = body["request"], body["metadata"]
    request_view = request if isinstance(request, dict) and len(request) > 1 else body.get("provider_request")
    response_view = body["response"] or body.get("provider_response")
    error = metadata.get("error") if isinstance(metadata, dict) else None
    lines: list[str] = []
    room = TEXT_LENGTH_MAX
    for text in (*_texts(request_view), *_texts(response_view), *_texts(error)):
        lines.append(text[:room])
        room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(lines)


def _texts(value: JSON) -> Iterator[str]:
    """Every text below a value, in order, except ids and types."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            if item and not (len(item) >= BLOB_LENGTH_MIN and " " not in item):
                yield item
        elif isinstance(item, dict):
            todo += [child for key, child in reversed(item.items()) if key not in _UNSEARCHED_FIELDS]
        elif isinstance(item, list):
            todo += reversed(item)


def separate_characters(text: str) -> str:
    """Put spaces around characters of scripts that have no spaces."""
    return text if text.isascii() else re.sub(_UNSPACED, r" \g<0> ", text.encode("utf-8", "replace").decode())


def join_characters(text: str) -> str:
    """The text as it was before `separate_characters`."""
    return text if text.isascii() else re.sub(_GAP, r"\1\2", text)


def match_expression(query: str) -> str:
    """A query in SQLite's syntax; one without words matches nothing."""
    terms = []
    for phrase, word in re.findall(_TERM, query):
        text = separate_characters(phrase or word.rstrip("*")).replace('"', " ").replace("\0", " ")
        if any(character.isalnum() for character in text):
            terms.append(f'"{text}"{"*" if word.endswith("*") else ""}')
    return " AND ".join(list(dict.fromkeys(terms))[:TERMS_MAX]) or '""'
