"""The approved calls of a project: what is replayed, and what new calls are compared with.

In: a snapshot tree that passed `verify`. Out: every approved call, and recordings for a player. Never: checks again
what `verify` checked, or answers from a file that it could not read.

Under `gate: "behaviour"` a snapshot answers any number of times; `call_counts` judges how often. Under
`gate: "request"`, and without a record, the n-th identical request of a scope gets the n-th answer; an approved error
answers any number of times, because clients retry, and so does the last answer to a client that polls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol, cast

from traceforge.canon import Digest, JSONObject, digest_bytes, parse_json
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.shown_body import describe_request
from traceforge.config import SNAPSHOTS_DIR
from traceforge.errors import CannotRead, InvalidFile
from traceforge.files import list_folder, read_file
from traceforge.replay.compared_body import find_compared_part
from traceforge.replay.fingerprints import drop_credentials, list_head_redactions
from traceforge.replay.library import RecordedKey, Recording
from traceforge.replay.logical_upstream import is_tool
from traceforge.replay.recorded_response import RecordedResponse, read_echoes
from traceforge.replay.request_key import KeyedRequest, KeyFields, RequestKeyer
from traceforge.replay.scoped_volatile import find_model
from traceforge.snapshots.formats.determinism_policy import BEHAVIOUR_GATE, REQUEST_GATE, ModelPolicy, find_gate
from traceforge.snapshots.formats.raw_response import RawResponse, decode_comparable_call, read_raw_response
from traceforge.snapshots.formats.record_draft import convert_request
from traceforge.snapshots.formats.snapshot_format import is_old_version, list_record_ids, read_document
from traceforge.snapshots.formats.tree_layout import RESERVED_DIRS
from traceforge.snapshots.tree.run_scopes import is_shared_scope
from traceforge.snapshots.tree.tree_verification import TreeContent
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import find_endpoint, find_host_dialect

HEAD_FIELDS = ("upstream", "headers")  # of a request that a person wrote: where it goes, and its headers


class ScopeTurn(NamedTuple):
    """Where a call was made: its scope, its number among identical calls of the scope, and how many calls it stands
    for. `per_worker`: another worker of the suite made the same call in another test, and a cache may save this one.
    """

    scope: str
    turn: int = 0
    calls: int = 0  # 0: unknown
    per_worker: bool = False

    def to_json(self, *, is_numbered: bool) -> JSONObject:
        """The entry in `source.scopes`; identical calls are numbered where each may have another answer."""
        entry: JSONObject = {"scope": self.scope, "turn": self.turn} if is_numbered else {"scope": self.scope}
        if self.calls:
            entry["calls"] = self.calls
        return {**entry, "per_worker": True} if self.per_worker else entry


class ApprovedCall(NamedTuple):
    """One approved call: a record, a raw response, or both."""

    id: str
    provider: str
    file: str  # in the tree
    hash: Digest  # of the record; without one, of the raw response's file
    record: JSONObject | None
    raw_response: RawResponse | None
    gate: str

    @property
    def source(self) -> JSONObject:
        """Where the call was made."""
        if self.record is not None:
            return cast("JSONObject", self.record["source"])
        return (self.raw_response.source if self.raw_response is not None else None) or {}

    @property
    def recorded_at(self) -> str:
        """When the call was made; "" where a record does not say."""
        return str(self.record["timestamp"]) if self.record is not None else ""

    @property
    def turns(self) -> list[ScopeTurn]:
        """Every scope and turn in which the call was made; none if the snapshot was written by hand."""
        return read_turns(self.source)

    @property
    def has_unknown_head(self) -> bool:
        """Whether it is unknown where the call went, or which headers it had."""
        if self.raw_response is not None:
            return bool(self.raw_response.unknown)
        assert self.record is not None
        return not all(name in cast("JSONObject", self.record["request"]) for name in HEAD_FIELDS)

    @property
    def is_adopted(self) -> bool:
        """Whether its answer was adopted from another request: no provider gave it to this one."""
        return self.raw_response is not None and self.raw_response.adopted_from is not None

    @property
    def call_counts(self) -> dict[str, int]:
        """How many calls of each scope the snapshot answers; 0 where that is unknown."""
        return count_calls(self.turns)

    @property
    def call(self) -> ComparedCall:
        """The call in the form in which calls are compared."""
        if self.record is not None:
            return ComparedCall.from_snapshot(self.record)
        assert self.raw_response is not None
        return decode_comparable_call(self.raw_response)

    @property
    def can_repeat(self) -> bool:
        """Whether it answers any number of times."""
        raw = self.raw_response
        return self.gate == BEHAVIOUR_GATE or (raw is not None and (raw.is_failure or raw.is_poll))

    @property
    def model(self) -> str:
        """The model that was called; "" if the request names none."""
        if self.record is not None:
            return str(cast("JSONObject", self.record["request"])["model"])
        raw = self.raw_response
        if raw is None:
            return ""
        return find_model(find_endpoint(raw.method, raw.url), raw.request_body)


def read_turns(source: JSONObject) -> list[ScopeTurn]:
    """The scopes and turns of a source."""
    scopes = cast("list[JSONObject]", source.get("scopes", []))
    return [
        ScopeTurn(
            str(scope["scope"]),
            int(cast("float", scope.get("turn", 0))),
            int(cast("float", scope.get("calls", 0))),
            bool(scope.get("per_worker")),
        )
        for scope in scopes
    ]


def count_calls(turns: Iterable[ScopeTurn]) -> dict[str, int]:
    """How many calls of each scope turns represent; 0 if the number of one of them is unknown."""
    counts: dict[str, int] = {}
    for turn in turns:
        is_known = turn.calls and counts.get(turn.scope, 1)
        counts[turn.scope] = counts.get(turn.scope, 0) + turn.calls if is_known else 0
    return counts


def load_approved_calls(project: str, policy: ModelPolicy, *, skip_old: bool = False) -> list[ApprovedCall]:
    """Every approved call of a project, by provider and id. `skip_old` leaves out documents of an older version.

    Raises:
        CannotRead, NotJSON, InvalidFile: the tree does not pass `verify`.
    """
    root = os.path.join(project, SNAPSHOTS_DIR)
    return list_approved_calls(_read_tree(root, skip_old=skip_old), policy) if os.path.isdir(root) else []


def list_approved_calls(content: TreeContent, policy: ModelPolicy) -> list[ApprovedCall]:
    """Every approved call of a tree that `verify_tree` has read, by provider and id."""
    calls: list[ApprovedCall] = []
    raw_responses = dict(content.raw_responses)
    for provider, file, records in content.documents:
        for record in records:
            gate = find_gate(record, provider, policy)
            name, digest = str(record["id"]), Digest(str(record["hash"]))
            _, raw = raw_responses.pop(name, (None, None))
            calls.append(ApprovedCall(name, provider, file, digest, record, raw, gate))
    calls += [  # Raw responses without a record.
        ApprovedCall(name, _provider_name(raw), f"wire/{name}.json", digest, None, raw, REQUEST_GATE)
        for name, (digest, raw) in sorted(raw_responses.items())
    ]
    return calls


def _read_tree(root: str, *, skip_old: bool) -> TreeContent:
    content = TreeContent()
    old_ids: set[str] = set()
    for folder in list_folder(root):
        if not folder.is_dir() or folder.name in RESERVED_DIRS or folder.name.startswith("."):
            continue
        for entry in list_folder(folder.path):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                data = read_file(entry.path, follow_links=False)
                try:
                    snapshots = read_document(data)
                except InvalidFile as exc:
                    if skip_old and all(map(is_old_version, exc.findings)):
                        old_ids.update(list_record_ids(parse_json(data)), [entry.name.removesuffix(".json")])
                        continue
                    raise
                records = [snapshot.body for snapshot in snapshots]
                content.documents.append((folder.name, f"{folder.name}/{entry.name}", records))
    old_ids -= {str(record["id"]) for _, _, records in content.documents for record in records}
    for entry in _scan_raw_responses(root):
        name = entry.name.removesuffix(".json")
        if entry.name.endswith(".json") and not entry.name.startswith(".") and name not in old_ids:
            data = read_file(entry.path, follow_links=False)
            content.raw_responses[name] = digest_bytes(data), read_raw_response(data)
    return content


def _scan_raw_responses(root: str) -> list[os.DirEntry[str]]:
    try:
        return list_folder(os.path.join(root, "wire"))
    except CannotRead:
        return []


def _provider_name(raw: RawResponse) -> str:
    return str(find_endpoint(raw.method, raw.url).dialect or find_host_dialect(raw.url) or "other")


def key_stored_request(keys: RequestKeyer, raw: RawResponse, scope: str = "") -> KeyedRequest:
    """The request of a raw response with its key in a scope, of which declarations for single tests may apply."""
    headers = drop_credentials(raw.request_headers, list_head_redactions(raw.redacted, raw.request_body))
    return keys.key_stored_request(
        raw.method, raw.url, headers, raw.request_body, upstream=raw.upstream or "", unknown=raw.unknown, scope=scope
    )


class StoredCall(Protocol):
    """A call of which a diff shows what is compared: approved, or pending."""

    @property
    def provider(self) -> str: ...

    @property
    def record(self) -> JSONObject | None: ...

    @property
    def raw_response(self) -> RawResponse | None: ...

    @property
    def call(self) -> ComparedCall: ...


def take_compared_parts(stored: StoredCall, keys: RequestKeyer, scope: str) -> ComparedCall:
    """The call without what is ignored in a scope, so that no diff of two calls has a row for it."""
    call, record, raw = stored.call, stored.record, stored.raw_response
    if raw is not None:
        request = describe_keyed_request(key_stored_request(keys, raw, scope))
        return ComparedCall(convert_request(request) if record is not None else request, call.answer)
    return ComparedCall(find_compared_part(call.request, stored.provider), call.answer)


def describe_keyed_request(keyed_request: KeyedRequest) -> JSONObject:
    """A request as two of them are shown side by side: what is compared of it."""
    body, fields = keyed_request.body, keyed_request.key_fields
    if keyed_request.endpoint.dialect is not None and isinstance(body, dict):
        return decode_request(keyed_request.endpoint, body) or body
    query = "&".join(name if value is None else f"{name}={value}" for name, value in fields.query)
    path = f"{keyed_request.prefix.path}?{query}" if query else keyed_request.prefix.path
    address = "" if is_tool(fields.upstream) else f"{fields.method} {path}"
    content_type = "multipart/form-data; boundary=boundary" if keyed_request.prefix.boundary else ""
    return describe_request(address, body, content_type)


def build_recordings(
    calls: Iterable[ApprovedCall],
    keys: RequestKeyer,
    may_repeat: Callable[[ApprovedCall, str], bool] = lambda _call, _scope: False,
) -> Iterator[Recording]:
    """Recordings for a player: one for each scope and turn of each approved call, in the order of turns.

    `may_repeat`: whether a call was declared to repeat in a scope.
    """
    turns = [
        (turn, call) for call in calls if call.raw_response is not None for turn in call.turns or [ScopeTurn("")]
    ]
    # Without the match key, calls that differ in redacted parts alone are answered in the order of the recording.
    for turn, call in sorted(turns, key=lambda item: (item[0], item[1].recorded_at, item[1].id)):
        assert call.raw_response is not None
        keyed_request = key_stored_request(keys, call.raw_response, turn.scope)
        source = _RawResponseSource(call.raw_response, keyed_request.key_fields)
        fingerprints = keys.read_fingerprints(keyed_request, call.raw_response.redacted)
        yield Recording(
            call.id,
            keyed_request.key,
            turn.scope,
            keyed_request.endpoint,
            source,
            fingerprints,
            repeats=call.can_repeat or may_repeat(call, turn.scope),
            cycles=is_shared_scope(turn.scope),
            unknown=call.raw_response.unknown,
            shared=_find_shared_key(keys, call.raw_response) if keyed_request.tests else None,
        )


def _find_shared_key(keys: RequestKeyer, raw: RawResponse) -> RecordedKey:
    keyed_request = key_stored_request(keys, raw)
    return RecordedKey(keyed_request.key, keys.read_fingerprints(keyed_request, raw.redacted))


class _RawResponseSource:
    """A raw response, converted when it is first replayed."""

    def __init__(self, raw: RawResponse, question: KeyFields) -> None:
        self._wire = raw
        self._question = question

    def load_key_fields(self) -> KeyFields:
        return self._question

    def load_response(self) -> RecordedResponse:
        return self._answer

    @cached_property
    def _answer(self) -> RecordedResponse:
        return make_recorded_response(self._wire)


def make_recorded_response(raw: RawResponse) -> RecordedResponse:
    """What a replay of this raw response sends."""
    echoes = read_echoes(raw.redacted or {})
    return RecordedResponse(
        raw.status,
        raw.response_headers,
        raw.chunks,
        raw.is_streamed,
        echoes,
        max(0, len(raw.redactions("response")) - len(echoes)),
        cut=raw.is_left_early,
        left_early=raw.is_left_early,
        cancellation=raw.cancellation,
    )
