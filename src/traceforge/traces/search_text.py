"""The words of a trace, and of a query.

In: the body of a trace, or what a person typed. Out: the text that is searched, and the expression that searches it.
Never: a query that is wrong: whatever a person types is words, "phrases" and prefix*.

Scripts that are written without spaces have a word a character here, and a query for several of them is a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceforge.canon import JSON, JSONObject

TEXT_LENGTH_MAX = 200_000  # Of one trace. Beyond, somebody sent a book, and its beginning is enough to find it.
TERMS_MAX = 200  # Of one query. Beyond, somebody pasted a book, and its first words are enough to find it.
BLOB_LENGTH_MIN = 2_000  # A text this long without a space is data, such as a picture.

_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_GAP = re.compile(rf"(?<={_UNSPACED.pattern})([\x02\x03]?)  ?([\x02\x03]?)(?={_UNSPACED.pattern})")
_TERM = re.compile(r'"([^"]*)"?|(\S+)')
_UNSEARCHED_FIELDS = frozenset(  # Ids, kinds and counts: not what was said.
    {
        "id", "object", "model", "role", "type", "created", "finish_reason", "provider_finish_reason", "usage",
        "service_tier", "system_fingerprint", "encrypted_content", "signature",
    }
)  # fmt: skip


def trace_text(body: JSONObject) -> str:
    """Everything that was said in a call, a line each: the unified views, or where they are empty the bodies."""
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
    """Every text below a value, in order, but not ids and kinds."""
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
    """Put spaces around characters of scripts that have none."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text.encode("utf-8", "replace").decode())


def join_characters(text: str) -> str:
    """Undo `spread_out`, for a snippet."""
    return text if text.isascii() else _GAP.sub(r"\1\2", text)


def match_expression(query: str) -> str:
    """A query as SQLite wants it; one without words matches nothing."""
    terms = []
    for phrase, word in _TERM.findall(query):
        text = separate_characters(phrase or word.rstrip("*")).replace('"', " ").replace("\0", " ")
        if any(character.isalnum() for character in text):
            terms.append(f'"{text}"{"*" if word.endswith("*") else ""}')
    return " AND ".join(list(dict.fromkeys(terms))[:TERMS_MAX]) or '""'
