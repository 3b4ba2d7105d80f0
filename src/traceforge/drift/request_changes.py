"""The differences between a recorded request and the one that a test sends now.

In: two requests, as the suite's recorder compares them. Out: one `RequestChange` for each place that differs, with
redacted values. Never: compares hosts or headers, keeps a secret, or counts a credential as a difference.

Method, path and query are compared as they are. A body is compared as JSON where it is JSON, as fields where it is a
form, and as text otherwise. Items of lists are paired by similarity, so that an inserted message is one difference.
Ids of tool calls count: a client that invents one in each run does not send what was recorded. They are marked,
because a snapshot would not compare them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs

from traceforge.canon import JSON, exact_canonical_bytes, exact_ecmascript_bytes, json_path
from traceforge.capture.run.cassette_observer import RecorderRequest
from traceforge.compare.alignment import align_items
from traceforge.compare.json_diff import ABSENT, Side, ValueChange, is_same_json
from traceforge.compare.text_diff import diff_words
from traceforge.redact.redactions import REDACTED
from traceforge.replay.compared_body import renumber_ids
from traceforge.replay.fingerprints import PERSONAL_TYPES
from traceforge.replay.request_key import KeyedRequest, Parameters, RequestKeyer
from traceforge.wire.endpoints import find_endpoint

INVENTED_IDS = "ids of tool calls, invented anew in each run"
REORDERED = "in another order"
VALUE_LENGTH_MAX = 60  # of a value in the line of a cause
EDITS_MAX = 3  # of a text in the line of a cause

_FORM = "application/x-www-form-urlencoded"
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class RequestChange:
    """One difference. `part` is method, path, query or body; `field` its place there, without indexes of lists."""

    part: str
    field: str
    before: str  # as in the line of a cause: short, and "" where there is nothing
    after: str
    summary: str = ""  # in place of both values

    @property
    def text(self) -> str:
        """The difference on one line."""
        name = self.field or self.part
        if self.summary:
            return self.summary if self.summary == INVENTED_IDS else f"{name} {self.summary}"
        if not self.before:
            return f"{name} added: {self.after}"
        return f"{name} {self.before} → {self.after}" if self.after else f"{name} removed: {self.before}"


def key_recorder_request(keyer: RequestKeyer, request: RecorderRequest) -> KeyedRequest:
    """The request without secrets, as the replay of a snapshot would compare it."""
    headers = (("content-type", request.media_type), ("content-encoding", request.encodings))
    return keyer.key_request(request.method, request.url, tuple(pair for pair in headers if pair[1]), request.body)


def list_request_changes(
    keyer: RequestKeyer, recorded: RecorderRequest, sent: RecorderRequest
) -> tuple[RequestChange, ...]:
    """Every difference, without repetitions; empty if the test sends what was recorded."""
    before, after = key_recorder_request(keyer, recorded), key_recorder_request(keyer, sent)
    changes = [*_list_head_changes(before, after), *_list_body_changes(before, after, sent.media_type)]
    if not changes:
        changes = [*_list_hidden_changes(before, after)]
    return tuple(dict.fromkeys(changes))


def is_blank_model_call(keyer: RequestKeyer, request: RecorderRequest) -> bool:
    """Whether a request to a model has no prompt: its body is empty or not an object, as a filter leaves it."""
    if find_endpoint(request.method, request.url).dialect is None:
        return False
    body = key_recorder_request(keyer, request).sent_body
    return not isinstance(body, dict) or not body


def _list_head_changes(before: KeyedRequest, after: KeyedRequest) -> Iterator[RequestChange]:
    old, new = before.key_fields, after.key_fields
    if old.method != new.method:
        yield RequestChange("method", "", old.method, new.method)
    if before.prefix.path != after.prefix.path:
        yield RequestChange("path", "", before.prefix.path, after.prefix.path)
    for change in list_value_changes(_group_query(old.query), _group_query(new.query), ""):
        yield _describe_change("query", change)


def _group_query(pairs: Parameters) -> JSON:
    values: dict[str, list[JSON]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {**values}


def _list_body_changes(before: KeyedRequest, after: KeyedRequest, media_type: str) -> Iterator[RequestChange]:
    old, new = _read_form(before.sent_body, media_type), _read_form(after.sent_body, media_type)
    if is_same_json(old, new):
        return
    lasting = {change.path for change in list_value_changes(renumber_ids(old), renumber_ids(new), "$")}
    for change in list_value_changes(old, new, "$"):
        if change.path in lasting:
            yield _describe_change("body", change)
        else:
            yield RequestChange("body", "", "", "", INVENTED_IDS)


def _read_form(body: JSON, media_type: str) -> JSON:
    if not isinstance(body, str) or _FORM not in media_type.lower():
        return body
    fields: dict[str, JSON] = {name: [*values] for name, values in parse_qs(body, keep_blank_values=True).items()}
    return fields


def _list_hidden_changes(before: KeyedRequest, after: KeyedRequest) -> Iterator[RequestChange]:
    """Personal data that differs although both sides are redacted."""
    old, new = (
        Counter((item.path, item.reveal()) for item in request.compared_redactions if item.type in PERSONAL_TYPES)
        for request in (before, after)
    )
    for path, _ in (old - new) or (new - old):
        yield RequestChange("body", _name_field(path), REDACTED, f"another {REDACTED}")


def list_value_changes(before: Side, after: Side, path: str) -> Iterator[ValueChange]:
    """The differences of two values. A list whose items only moved is one; so is each item that came or went."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from list_value_changes(before.get(key, ABSENT), after.get(key, ABSENT), json_path(path, key))
    elif isinstance(before, list) and isinstance(after, list) and _has_objects(before + after):
        if not _is_reordered(before, after):
            for i, j in align_items(before, after):
                old, new = ABSENT if i is None else before[i], ABSENT if j is None else after[j]
                yield from list_value_changes(old, new, json_path(path, j if j is not None else i or 0))
        elif not is_same_json(before, after):
            yield ValueChange(path, before, after)
    elif not is_same_json(before, after):
        yield ValueChange(path, before, after)


def _has_objects(items: list[JSON]) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def _is_reordered(before: list[JSON], after: list[JSON]) -> bool:
    return len(before) == len(after) and sorted(map(exact_canonical_bytes, before)) == sorted(
        map(exact_canonical_bytes, after)
    )


def _describe_change(part: str, change: ValueChange) -> RequestChange:
    before, after, field = change.before, change.after, _name_field(change.path)
    if isinstance(before, list) and isinstance(after, list) and _is_reordered(before, after):
        return RequestChange(part, field, "", "", REORDERED)
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > VALUE_LENGTH_MAX:
        edits = diff_words(before, after).edits
        texts = (
            " … ".join(getattr(edit, side).strip() for edit in edits[:EDITS_MAX]) for side in ("before", "after")
        )
        return RequestChange(part, field, *(f'"{_clip(text)}"' for text in texts))
    return RequestChange(part, field, _value_text(before), _value_text(after))


def _name_field(path: str) -> str:
    return _INDEX.sub("[]", path.removeprefix("$").removeprefix("."))


def _value_text(value: Side) -> str:
    return "" if value is ABSENT else _clip(exact_ecmascript_bytes(value).decode())


def _clip(text: str) -> str:
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[: VALUE_LENGTH_MAX - 1]}…"
