"""What a request refers to that its provider stores: a file, a thread, an upload.

In: a request. Out: ids. Never: the id of a tool call, which the request itself defines: nothing is stored under it.

A provider stores nothing of what was only replayed. So where a live request names an id from a replayed answer, its
test is run again, all live.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote

from traceforge.canon import JSON

ID_LENGTH_MIN = 4  # A shorter text is in most answers by accident.

_NAMES = re.compile(
    r"(?:.*_)?(?:file|files|assistant|thread|batch|vector_store|container|conversation|upload|part|run|message"
    r"|prompt|skill|video)_ids?|input_file|training_file|validation_file|file_ur[il]|fileUr[il]|cached_?[cC]ontent"
)
_QUERY_NAMES = frozenset({"upload_id", "after", "before", "cursor", "pageToken", "page_token"})
_WORD = re.compile(r"[a-z_]+|v[0-9]+[a-z0-9]*")
_MODEL = re.compile(r"/(?:models|deployments|publishers|projects|locations|organizations)/[^/]+")


def list_state_ids(path: str, query: str, body: JSON) -> list[str]:
    """The ids of what a request refers to; a model, a deployment and an account are none."""
    segments = [unquote(segment) for segment in _MODEL.sub("", path).split("/")]
    in_path = [segment for segment in segments if segment and _WORD.fullmatch(segment) is None]
    in_query = [value for name, value in parse_qsl(query) if name in _QUERY_NAMES]
    ids = [*in_path, *in_query, *_list_body_ids(body)]
    return [text for text in dict.fromkeys(ids) if len(text) >= ID_LENGTH_MIN]


def _list_body_ids(value: JSON) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _list_body_ids(item)
    elif isinstance(value, dict):
        for name, member in value.items():
            if _NAMES.fullmatch(name):
                yield from (
                    text for text in (member if isinstance(member, list) else [member]) if isinstance(text, str)
                )
            elif isinstance(member, dict | list):
                yield from _list_body_ids(member)
