"""From other people's recordings to traces and pending changes.

In: a folder of cassettes. Out: a trace for every model call in them, redacted as any other, and pending changes for a
person to approve. Never: approves, stops at a broken cassette, or keeps what is no model call.

Names and times are made from the cassette alone, so that importing twice writes the same traces again.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from traceforge.canon import parse_json
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.clock import timestamp_text
from traceforge.config import LoadedConfig
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.exchange import Caller, Chunk, Exchange, find_header
from traceforge.files import read_file
from traceforge.findings import PARSE, Finding
from traceforge.snapshots.gate.command_runs import read_traces
from traceforge.snapshots.record.candidates import find_candidates
from traceforge.snapshots.record.cassette_format import (
    CASSETTE_BYTES_MAX,
    JSON_END,
    YAML_ENDS,
    Interaction,
    find_test,
    looks_like_cassette,
    read_cassette,
)
from traceforge.snapshots.record.pending_changes import Pending, load_pending, save_pending
from traceforge.snapshots.record.proposal import propose
from traceforge.snapshots.tree.project_snapshots import Gate, scopes_of
from traceforge.wire.content_encoding import decode_body
from traceforge.wire.endpoints import Dialect, find_endpoint

NAMES = uuid.UUID("5f0b7d0e-6f0c-4a5e-9a53-8d5c3c1f6f6b")  # Any UUID does, as long as it stays.


@dataclass
class Imported:
    """What an import did."""

    cassettes: int = 0  # that could be read
    calls: int = 0
    others: int = 0  # interactions that are no model calls
    without_test: int = 0  # cassettes with model calls, and no test that they are known to belong to
    unread: int = 0  # calls that could not be kept
    unchanged: int = 0
    changes: list[Pending] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def import_cassettes(gate: Gate, folder: str) -> Imported:
    """Import every cassette under a folder.

    Raises:
        NotFound: there is none.
        MissingExtra: they are YAML, and there is nothing here that reads it.
        CannotRead: the folder cannot be read.
    """
    loaded, done = gate.loaded, Imported()
    exchanges: list[Exchange] = []
    found = 0
    for path in _files(folder):
        try:
            data = read_file(path, follow_links=False, bytes_max=CASSETTE_BYTES_MAX)
            if path.endswith(JSON_END) and not looks_like_cassette(data):
                continue
            found += 1
            interactions = read_cassette(data, path)
        except (InvalidFile, CannotRead) as exc:
            done.findings += _said(exc, path)
            continue
        done.cassettes += 1
        exchanges += _exchanges(loaded, path, interactions, done)
    if not found and not done.findings:
        raise NotFound(f"there are no cassettes in {folder}", hint="Name the folder that holds them.")
    done.calls = len(exchanges)
    _file(gate, exchanges, done)
    return done


def _said(exc: InvalidFile | CannotRead, path: str) -> list[Finding]:
    if isinstance(exc, CannotRead):
        return [exc.finding(path)]
    return [finding._replace(file=path) for finding in exc.findings]


def _files(folder: str) -> Iterator[str]:
    """Every file that may be a cassette, in a fixed order."""
    if os.path.isfile(folder):
        yield folder
        return
    if not os.path.isdir(folder):
        raise CannotRead(folder, "no such file or folder", hint="Check the path.")
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            os.path.join(place, name) for name in sorted(files) if name.lower().endswith((*YAML_ENDS, JSON_END))
        )


def _exchanges(
    loaded: LoadedConfig, path: str, interactions: Sequence[Interaction], done: Imported
) -> Iterator[Exchange]:
    calls = [one for one in interactions if is_model_call(one)]
    done.others += len(interactions) - len(calls)
    if not calls:
        return
    scope = find_test(path, loaded.project)
    done.without_test += not scope
    name = os.path.relpath(os.path.realpath(path), os.path.realpath(loaded.project)).replace(os.sep, "/")
    began = _began(path, calls)
    for place, one in enumerate(calls):
        yield _exchange(one, name, scope, began, place)


def is_model_call(one: Interaction) -> bool:
    """Is it a call of a model? The address says so, and the body names one, or the address does."""
    endpoint = find_endpoint(one.method, one.url)
    if endpoint.dialect is None:
        return False
    if endpoint.dialect is Dialect.GEMINI or endpoint.model:
        return True
    try:
        body = parse_json(decode_body(one.request_body, find_header(one.request_headers, "content-encoding")).body)
    except NotJSON:
        return False
    return isinstance(body, dict) and isinstance(body.get("model"), str)


def _began(path: str, calls: Sequence[Interaction]) -> datetime:
    """When the first of them was answered, as its server said; else when the cassette was written."""
    try:
        return parsedate_to_datetime(find_header(calls[0].response_headers, "date")).astimezone(UTC)
    except ValueError:
        return datetime.fromtimestamp(int(os.stat(path).st_mtime), UTC)


def _exchange(one: Interaction, name: str, scope: str, began: datetime, place: int) -> Exchange:
    function = scope.rpartition("::")[2].partition("[")[0]
    source = f"{scope.partition('::')[0]}:0:{function}" if scope else f"{name}:0:"
    body = one.response_body
    return Exchange(
        str(uuid.uuid5(NAMES, f"{name}\n{place}")),
        timestamp_text(began + timedelta(milliseconds=place)),  # A cassette keeps the order, and no times.
        one.method,
        one.url,
        one.request_headers,
        one.request_body,
        one.status,
        one.response_headers,
        (Chunk(0.0, body),) if body else (),
        0.0,
        caller=Caller(source, scope),
    )


def _file(gate: Gate, exchanges: Sequence[Exchange], done: Imported) -> None:
    """Keep the traces, and file what nobody approved; other pending changes of the same tests go."""
    loaded = gate.loaded
    writer = TraceWriter(RecorderSettings.from_project(loaded))
    for exchange in exchanges:
        writer.write(exchange)
    writer.write_files()
    for why, times in writer.counts.failed.items():
        done.findings.append(Finding("(the traces)", "", PARSE, f"{times} could not be kept: {why}"))
    traces, done.unread = read_traces(loaded, [one.id for one in exchanges])
    candidates = find_candidates(traces, gate.keys, loaded.config.models)
    tests = {one.caller.scope for one in exchanges if one.caller.scope}
    proposal = propose(candidates, gate.approved, gate.keys, Counter(), scopes_of(loaded, tests))
    older = [one.id for one in load_pending(loaded.project) if {turn.scope for turn in one.turns} & tests]
    save_pending(loaded.project, proposal.changes, [*older, *proposal.settled])
    done.changes, done.unchanged = proposal.changes, proposal.unchanged
