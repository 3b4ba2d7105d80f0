"""Import vcrpy cassettes as traces and pending changes.

In: a folder of cassettes. Out: a redacted trace for every call in them that the project records, and pending changes.
Never: approves, stops at a broken cassette, or imports a call that a run of the project would not record.

Trace ids and times depend on the cassette alone, so that importing twice writes the same traces.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from traceforge.canon import parse_json
from traceforge.capture.hook.model_call_rules import WatchedHosts, is_at_known_host
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.clock import timestamp_text
from traceforge.config import LoadedConfig
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.exchange import Caller, Chunk, Exchange, find_header
from traceforge.files import read_file, walk_folders
from traceforge.findings import PARSE, Finding
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.candidates import find_candidates
from traceforge.snapshots.record.cassette_format import (
    CASSETTE_BYTES_MAX,
    CASSETTE_ENDS,
    JSON_END,
    CassetteInteraction,
    looks_like_cassette,
    read_cassette,
    unpack_cassette,
)
from traceforge.snapshots.record.cassette_layout import CassetteLayout
from traceforge.snapshots.record.pending_changes import PendingChange, load_pending, save_pending
from traceforge.snapshots.record.proposal import propose_changes
from traceforge.snapshots.record.record_run import read_traces
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots, make_run_scopes
from traceforge.terminal import ProgressReporter, no_progress
from traceforge.wire.content_encoding import decode_body
from traceforge.wire.endpoints import Dialect, find_endpoint

FIRST_YEAR, LAST_YEAR = 1990, 9999
TRACE_ID_NAMESPACE = uuid.UUID("5f0b7d0e-6f0c-4a5e-9a53-8d5c3c1f6f6b")  # Any UUID, as long as it never changes.


@dataclass
class CassetteImport:
    """The outcome of an import."""

    cassettes: int = 0  # that were read
    calls: int = 0
    other_calls: int = 0  # of the calls, those that ask no model, at hosts whose every call is recorded
    others: int = 0  # interactions that are not imported
    linked: int = 0  # cassettes with model calls whose test is known
    without_test: int = 0  # cassettes with model calls whose test is unknown
    unread: int = 0  # calls that could not be stored
    unchanged: int = 0
    changes: list[PendingChange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class CassetteCalls(NamedTuple):
    """The calls of some cassettes, and the report of their import so far."""

    exchanges: list[Exchange]
    report: CassetteImport


def read_cassettes(
    loaded: LoadedConfig, folder: str, layout: CassetteLayout, progress: ProgressReporter = no_progress
) -> CassetteCalls:
    """Read every cassette under a folder; `layout` says which test a cassette belongs to. Writes nothing.

    Raises:
        NotFound: the folder holds no cassette.
        MissingExtra: a cassette is YAML, and PyYAML is not installed.
        CannotRead: the folder cannot be read.
    """
    report, exchanges = CassetteImport(), list[Exchange]()
    paths = list(list_cassette_files(folder))
    for path in progress(paths, len(paths), "reading cassettes"):
        try:
            interactions = read_cassette_file(path)
        except (InvalidFile, CannotRead) as exc:
            report.findings += list_cassette_findings(exc, path)
            continue
        if interactions is None:
            continue
        report.cassettes += 1
        exchanges += _make_exchanges(loaded, layout, path, interactions, report)
    if not report.cassettes and not report.findings:
        hint = "Name the folder that holds them: traceforge import vcr FOLDER"
        raise NotFound(f"there are no cassettes in {folder}", hint=hint)
    report.calls = len(exchanges)
    return CassetteCalls(exchanges, report)


def import_cassettes(
    snapshots: ProjectSnapshots, cassettes: CassetteCalls, progress: ProgressReporter = no_progress
) -> CassetteImport:
    """Make a trace and a pending change of each call; writes nothing if there is none."""
    if cassettes.exchanges:
        _file_changes(snapshots, cassettes.exchanges, cassettes.report, progress)
    return cassettes.report


def read_cassette_file(path: str) -> list[CassetteInteraction] | None:
    """The interactions of a cassette; None if the file is JSON of another kind.

    Raises:
        MissingExtra: it is YAML, and PyYAML is not installed.
        InvalidFile, CannotRead: it is not a cassette, or cannot be read.
    """
    data, name = unpack_cassette(read_file(path, follow_links=False, bytes_max=CASSETTE_BYTES_MAX), path)
    if name.endswith(JSON_END) and not looks_like_cassette(data):
        return None
    return read_cassette(data, name)


def list_cassette_findings(exc: InvalidFile | CannotRead, path: str) -> list[Finding]:
    """Why `read_cassette_file` refused a file."""
    if isinstance(exc, CannotRead):
        return [exc.finding(path)]
    return [finding._replace(file=path) for finding in exc.findings]


def list_cassette_files(folder: str) -> Iterator[str]:
    """Every file that may be a cassette, sorted.

    Raises:
        CannotRead: the folder does not exist.
    """
    if os.path.isfile(folder):
        yield folder
        return
    if not os.path.isdir(folder):
        raise CannotRead(folder, "no such file or folder", hint="Check the path.")
    for parent, folders, files in walk_folders(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(parent, name) for name in sorted(files) if name.lower().endswith(CASSETTE_ENDS))


def _make_exchanges(
    loaded: LoadedConfig,
    layout: CassetteLayout,
    path: str,
    interactions: Sequence[CassetteInteraction],
    report: CassetteImport,
) -> Iterator[Exchange]:
    hosts = WatchedHosts(list_watched_hosts(loaded.config))
    model_calls = [is_model_call(interaction) for interaction in interactions]
    calls = [
        interaction
        for interaction, is_model in zip(interactions, model_calls, strict=True)
        if is_model or is_at_known_host(interaction.url, hosts)
    ]
    report.other_calls += len(calls) - sum(model_calls)
    report.others += len(interactions) - len(calls)
    if not calls:
        return
    scope = layout.find_test(path)
    report.linked += bool(scope)
    report.without_test += not scope
    name = os.path.relpath(os.path.realpath(path), os.path.realpath(loaded.project)).replace(os.sep, "/")
    started = _find_start_time(path, calls)
    for index, interaction in enumerate(calls):
        yield _make_exchange(interaction, name, scope, started, index)


def is_model_call(interaction: CassetteInteraction) -> bool:
    """Whether the call is for a model: the URL is a model endpoint, and the URL or the body names a model."""
    endpoint = find_endpoint(interaction.method, interaction.url)
    if endpoint.dialect is None:
        return False
    if endpoint.dialect is Dialect.GEMINI or endpoint.model:
        return True
    try:
        body = parse_json(
            decode_body(interaction.request_body, find_header(interaction.request_headers, "content-encoding")).body
        )
    except NotJSON:
        return False
    return isinstance(body, dict) and isinstance(body.get("model"), str)


def _find_start_time(path: str, calls: Sequence[CassetteInteraction]) -> datetime:
    """The first response's `Date` header; else the time of the cassette's file. Dates that no call can have are not
    believed: a time zone or a later call would take them out of the calendar.
    """
    try:
        date = parsedate_to_datetime(find_header(calls[0].response_headers, "date"))
    except (ValueError, OverflowError):  # OverflowError: a number beyond every calendar.
        date = None
    if date is not None and FIRST_YEAR <= date.year < LAST_YEAR:
        return date.astimezone(UTC)
    return datetime.fromtimestamp(int(os.stat(path).st_mtime), UTC)


def _make_exchange(
    interaction: CassetteInteraction, name: str, scope: str, started: datetime, index: int
) -> Exchange:
    function = scope.partition("[")[0].rpartition("::")[2]
    source = f"{scope.partition('::')[0]}:0:{function}" if scope else f"{name}:0:"
    body = interaction.response_body
    return Exchange(
        str(uuid.uuid5(TRACE_ID_NAMESPACE, f"{name}\n{index}")),
        timestamp_text(started + timedelta(milliseconds=index)),  # A cassette has an order, but no times.
        interaction.method,
        interaction.url,
        interaction.request_headers,
        interaction.request_body,
        interaction.status,
        interaction.response_headers,
        (Chunk(0.0, body),) if body else (),
        0.0,
        caller=Caller(source, scope),
        headers_filtered=True,  # A cassette does not say which headers its filters have removed.
    )


def _file_changes(
    snapshots: ProjectSnapshots, exchanges: Sequence[Exchange], report: CassetteImport, progress: ProgressReporter
) -> None:
    """Write the traces, and save unapproved calls as pending changes, in place of others of the same tests."""
    loaded = snapshots.loaded
    writer = TraceWriter(RecorderSettings.from_project(loaded))
    for exchange in progress(exchanges, len(exchanges), "writing traces"):
        writer.write(exchange)
    writer.write_files()
    for problem, times in writer.counts.failed.items():
        report.findings.append(Finding("(the traces)", "", PARSE, f"{times} could not be stored: {problem}"))
    traces, report.unread = read_traces(loaded, [exchange.id for exchange in exchanges])
    candidates = find_candidates(
        traces,
        snapshots.keys,
        ModelPolicy.from_config(loaded.config),
        needs_match_key=loaded.config.match.redacted != "count",
    )
    tests = {exchange.caller.scope for exchange in exchanges if exchange.caller.scope}
    proposal = propose_changes(
        candidates, snapshots.approved_calls, snapshots.keys, Counter(), make_run_scopes(loaded, tests)
    )
    replaced_ids = [
        change.id for change in load_pending(loaded.project) if {turn.scope for turn in change.turns} & tests
    ]
    save_pending(loaded.project, proposal.changes, [*replaced_ids, *proposal.settled_ids])
    report.changes, report.unchanged = proposal.changes, proposal.unchanged
