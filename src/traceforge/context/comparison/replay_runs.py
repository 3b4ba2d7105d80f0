"""Replay runs in the database: their items as they finish, and their report.

Never: calls a model (`replay_worker` does), stores the answers of an item in the clear, or writes a second report.

The evidence digest is the digest of the canonical JSON of the report's `items`, so it can be computed from the
report.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, cast

from sqlalchemy import func, insert, or_, select, update

from traceforge.canon import JSON, JSONObject, digest_canonical, json_bytes, parse_json
from traceforge.clock import now_text
from traceforge.context.comparison.replay_lanes import LaneAnswer
from traceforge.context.compiler.branch_compilation import BlockOrigin, block_origins
from traceforge.context.compiler.pinned_snapshots import create_snapshot, load_snapshot, snapshot_path
from traceforge.context.history.sessions import get_session
from traceforge.context.model.inputs import NewReplayRun, NewSnapshot
from traceforge.context.model.objects import EventType, Progress, ReplayReport, ReplayRun
from traceforge.context.responses.model_releases import get_release, resolve_release
from traceforge.context.responses.stored_responses import open_content
from traceforge.context.storage.leases import has_no_lease, lease_end, lease_owner
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.sealed_tables import row_name
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import replay_items, replay_runs, responses
from traceforge.conversion import convert, decode_json, encode_json
from traceforge.errors import StoreRefused
from traceforge.ids import new_id

OBJECT_NAME = "replay run"
NOTES = {
    "single_turn": "Every input is pinned: both models saw the same.",
    "trajectory": (
        "Each model went on from its own answers, and what the user said was logged with the old model: that "
        "favours the old one."
    ),
}


def create_run(tx: StoreTransaction, body: NewReplayRun) -> ReplayRun:
    """Insert a run with its items; no model is called yet.

    Raises:
        StoreRefused: an object does not exist, or not exactly one of snapshots and session is given.
    """
    if bool(body.snapshot_ids) == (body.session_id is not None):
        message = "`snapshot_ids` or `session_id` is required, not both"
        raise StoreRefused(message, reason="invalid_replay_run", param="snapshot_ids")
    tx.lock_inserts()
    baseline, candidate = (
        resolve_release(tx, body.baseline, "baseline"),
        resolve_release(tx, body.candidate, "candidate"),
    )
    run_id = new_id("rpl")
    items = _single_turns(tx, body, baseline.id) if body.session_id is None else _turns(tx, body.session_id)
    if not items:
        message = "the session has no turn for a model to answer"
        raise StoreRefused(message, reason="nothing_to_replay", status=409, param="session_id")
    tx.execute(
        insert(replay_runs),
        [
            {
                "id": run_id,
                "project_id": tx.project_id,
                "status": Progress.QUEUED.value,
                "mode": "single_turn" if body.session_id is None else "trajectory",
                "baseline": baseline.id,
                "candidate": candidate.id,
                "session_id": body.session_id,
                "fresh_baseline": body.fresh_baseline,
                "concurrency": body.concurrency,
                "total": len(items),
                "cancel_requested": False,
                "created_at": now_text(),
            }
        ],
    )
    rows = [{"run_id": run_id, "position": place, "status": Progress.QUEUED.value, **item}
            for place, item in enumerate(items)]  # fmt: skip
    tx.execute(insert(replay_items), rows)
    return get_run(tx, run_id)


def get_run(tx: StoreTransaction, run_id: str) -> ReplayRun:
    """A replay run by its id."""
    return _to_run(tx, load_run(tx, run_id))


def list_runs(tx: StoreTransaction, limit: int, after: str | None) -> Page[ReplayRun]:
    """The replay runs of the project, oldest first."""
    return list_page(
        tx,
        replay_runs,
        (),
        lambda rows: [_to_run(tx, row) for row in rows],
        limit=limit,
        after=after,
        visible=(replay_runs.c.purged_by.is_(None),),
    )


def get_report(tx: StoreTransaction, run_id: str) -> ReplayReport:
    """The report of a run that is completed.

    Raises:
        StoreRefused: it is not completed.
    """
    row = load_run(tx, run_id)
    if row.sealed is None:
        raise StoreRefused(f"replay run {run_id} is {row.status}: it has no report", reason="no_report", status=404)
    sealed = SealedColumns(row.sealed, row.wrapped_key, row.generation)
    return decode_json(tx.sealer.open("replay_runs", row.id, sealed), ReplayReport)


def cancel_run(tx: StoreTransaction, run_id: str) -> ReplayRun:
    """Cancel a run. Finished items stay.

    Raises:
        StoreRefused: it is completed or failed.
    """
    row = load_run(tx, run_id)
    if row.status in (Progress.COMPLETED.value, Progress.FAILED.value):
        message = f"replay run {run_id} is {row.status}: there is nothing to cancel"
        raise StoreRefused(message, reason="already_final", status=409)
    if row.status != Progress.CANCELED.value:
        _update_run(tx, run_id, status=Progress.CANCELED.value, cancel_requested=True, completed_at=now_text())
    return get_run(tx, run_id)


def load_run(tx: StoreTransaction, run_id: str) -> AnyRow:
    """The row of a run, unless it was purged."""
    return tx.load(replay_runs, OBJECT_NAME, run_id)


# For the worker.


def list_unclaimed_runs(tx: StoreTransaction) -> list[str]:
    """Runs without a worker: new ones, and those whose process died."""
    return [
        row.id for row in tx.fetch_all(select(replay_runs.c.id).where(*_is_unclaimed(tx)).order_by(replay_runs.c.seq))
    ]


def claim_run(tx: StoreTransaction, run_id: str) -> bool:
    """Lease a run to this process; False if another process has it or it has ended."""
    values = {"status": Progress.RUNNING.value, "lease_owner": lease_owner(), "lease_until": lease_end()}
    return tx.execute(update(replay_runs).where(replay_runs.c.id == run_id, *_is_unclaimed(tx)).values(values)) == 1


def renew_run_lease(tx: StoreTransaction, run_id: str) -> bool:
    """Renew the lease; False if the run has ended or another process has it."""
    own = (
        replay_runs.c.id == run_id,
        replay_runs.c.status == Progress.RUNNING.value,
        replay_runs.c.lease_owner == lease_owner(),
        replay_runs.c.purged_by.is_(None),
    )
    return tx.execute(update(replay_runs).where(*own).values(lease_until=lease_end())) == 1


def list_items(tx: StoreTransaction, run_id: str) -> list[AnyRow]:
    """The items of a run, in order."""
    own = select(replay_items).where(replay_items.c.run_id == run_id)
    return tx.fetch_all(own.order_by(replay_items.c.position))


def open_item(tx: StoreTransaction, row: AnyRow) -> JSONObject:
    """The decrypted content of a finished item."""
    sealed = SealedColumns(row.sealed, row.wrapped_key, row.generation)
    return cast("JSONObject", parse_json(tx.sealer.open("replay_items", row_name(row.run_id, row.position), sealed)))


class RecordedCall(NamedTuple):
    """A recorded answer, and what its request was rendered with."""

    lane: LaneAnswer | None
    params: JSONObject  # Of the request: those of a lane's target come from its own release.
    renderer_revision: str | None


def read_recorded_call(tx: StoreTransaction, response_id: str | None) -> RecordedCall:
    """The call of a response; without a response, one without parameters."""
    row = None if response_id is None else tx.find(responses, response_id)
    if row is None or row.purged_by is not None:
        return RecordedCall(None, {}, None)
    content = open_content(tx, row)
    lane = {
        "target": content["target"],
        "output": content["output"],
        "finish_reason": content["finish_reason"],
        "trace_id": row.trace_id,
    }
    return RecordedCall(convert(lane, LaneAnswer), cast("JSONObject", content["params"]), row.renderer_revision)


def store_item(tx: StoreTransaction, row: AnyRow, result: JSONObject) -> bool:
    """Store the result of an item; False if another process has the run."""
    generation = tx.lock_generation()
    if not renew_run_lease(tx, row.run_id):
        return False
    sealed = tx.sealer.seal("replay_items", row_name(row.run_id, row.position), generation, json_bytes(result))
    status = Progress.FAILED if result["verdict"] == "failed" else Progress.COMPLETED
    own = (replay_items.c.run_id == row.run_id, replay_items.c.position == row.position)
    lanes = cast("dict[str, Any]", result["lanes"])
    traces = [lane["trace_id"] for name, lane in lanes.items() if name != "recorded" and lane and lane["trace_id"]]
    values = {"status": status.value, "trace_ids": " ".join(traces), "completed_at": now_text(), **sealed._asdict()}
    tx.execute(update(replay_items).where(*own).values(values))
    return True


def finish_run(tx: StoreTransaction, run_id: str) -> ReplayRun:
    """Write the report of a run whose items are all finished."""
    tx.lock_generation()
    if renew_run_lease(tx, run_id):
        row = load_run(tx, run_id)
        report_object = _report(tx, row, [_item_json(tx, item_row) for item_row in list_items(tx, run_id)])
        sealed = tx.sealer.seal("replay_runs", run_id, tx.lock_generation(), encode_json(report_object))
        _update_run(
            tx, run_id, status=Progress.COMPLETED.value, evidence_digest=report_object.evidence_digest,
            completed_at=report_object.created_at, **sealed._asdict(),
        )  # fmt: skip
    return get_run(tx, run_id)


def fail_run(tx: StoreTransaction, run_id: str, code: str) -> None:
    """Mark a run as failed."""
    if renew_run_lease(tx, run_id):
        _update_run(tx, run_id, status=Progress.FAILED.value, error_code=code, completed_at=now_text())


def is_turn(origins_on_path: list[BlockOrigin], place: int) -> bool:
    """Whether a model answered here, or should have."""
    return origins_on_path[place].event_id is not None and origins_on_path[place].source.kind.startswith(
        EventType.ASSISTANT_MESSAGE
    )


def turn_places(origins_on_path: list[BlockOrigin]) -> list[int]:
    """The indexes at which a model answers: its messages, and the end if the last message is not its own."""
    places = [place for place in range(len(origins_on_path)) if is_turn(origins_on_path, place)]
    if (
        origins_on_path
        and origins_on_path[-1].event_id is not None
        and not is_turn(origins_on_path, len(origins_on_path) - 1)
    ):
        places.append(len(origins_on_path))
    return places


def _single_turns(tx: StoreTransaction, body: NewReplayRun, baseline: str) -> list[dict[str, Any]]:
    items_to_insert = []
    for number, snapshot_id in enumerate(body.snapshot_ids):
        load_snapshot(tx, snapshot_id, f"snapshot_ids[{number}]")
        items_to_insert.append({"snapshot_id": snapshot_id, "response_id": _recorded(tx, snapshot_id, baseline)})
    return items_to_insert


def _recorded(tx: StoreTransaction, snapshot_id: str, baseline: str) -> str | None:
    """The first answer to a snapshot: the baseline's, or any other if it has none."""
    own = (
        responses.c.project_id == tx.project_id,
        responses.c.snapshot_id == snapshot_id,
        responses.c.status == Progress.COMPLETED.value,
        responses.c.purged_by.is_(None),
    )
    rows = tx.fetch_all(select(responses.c.id, responses.c.release_id).where(*own).order_by(responses.c.seq))
    return next((row.id for row in rows if row.release_id == baseline), rows[0].id if rows else None)


def _turns(tx: StoreTransaction, session_id: str) -> list[dict[str, Any]]:
    """One item for each turn, all on one snapshot, which pins the session as it is now."""
    snapshot = create_snapshot(tx, session_id, get_session(tx, session_id).default_branch_id, NewSnapshot())
    row = load_snapshot(tx, snapshot.id)
    origins_on_path = block_origins(tx, session_id, snapshot_path(tx, row))
    by_event = {
        response_row.event_id: response_row.id
        for response_row in tx.fetch_all(
            select(responses.c.id, responses.c.event_id).where(
                responses.c.project_id == tx.project_id,
                responses.c.session_id == session_id,
                responses.c.event_id.is_not(None),
            )
        )
    }
    events = [
        origins_on_path[place].event_id if place < len(origins_on_path) else None
        for place in turn_places(origins_on_path)
    ]
    return [{"snapshot_id": snapshot.id, "response_id": by_event.get(event) if event else None} for event in events]


def _item_json(tx: StoreTransaction, row: AnyRow) -> JSONObject:
    return {
        "position": row.position,
        "snapshot_id": row.snapshot_id,
        "response_id": row.response_id,
        **open_item(tx, row),
    }


def _report(tx: StoreTransaction, row: AnyRow, results: list[JSONObject]) -> ReplayReport:
    verdicts = Counter(str(result["verdict"]) for result in results)
    return ReplayReport(
        replay_run_id=row.id,
        mode=row.mode,
        note=NOTES[row.mode],
        baseline=get_release(tx, row.baseline),
        candidate=get_release(tx, row.candidate),
        summary={
            "items": len(results),
            "verdicts": dict(sorted(verdicts.items())),
            "rules": {name: _rules(results, name) for name in ("drift", "candidate", "candidate_against_fresh")},
        },
        items=cast("list[dict[str, Any]]", results),
        evidence_digest=digest_canonical(cast("JSON", results)),
        created_at=now_text(),
    )


def _rules(results: list[JSONObject], name: str) -> dict[str, int]:
    """In how many items each rule found a difference."""
    counted: Counter[str] = Counter()
    for result in results:
        changes = cast("dict[str, Any]", result["differences"])[name] or []
        counted.update({change["rule"] for change in changes})
    return dict(sorted(counted.items()))


def _is_unclaimed(tx: StoreTransaction) -> tuple[Any, ...]:
    return (
        replay_runs.c.project_id == tx.project_id,
        replay_runs.c.purged_by.is_(None),
        or_(
            replay_runs.c.status == Progress.QUEUED.value,
            (replay_runs.c.status == Progress.RUNNING.value) & has_no_lease(replay_runs.c.lease_until),
        ),
    )


def _update_run(tx: StoreTransaction, run_id: str, **values: Any) -> None:  # noqa: ANN401 (columns)
    ended = {"lease_owner": None, "lease_until": None, **values}
    tx.execute(update(replay_runs).where(replay_runs.c.id == run_id).values(ended))


def _to_run(tx: StoreTransaction, row: AnyRow) -> ReplayRun:
    own = replay_items.c.run_id == row.id
    places = tx.fetch_all(select(replay_items.c.snapshot_id).where(own).order_by(replay_items.c.position))
    finished_count = tx.fetch_one(
        select(func.count().label("number")).where(own, replay_items.c.status != Progress.QUEUED.value)
    )
    return ReplayRun(
        id=row.id,
        status=Progress(row.status),
        mode=row.mode,
        baseline=row.baseline,
        candidate=row.candidate,
        snapshot_ids=list(dict.fromkeys(item_row.snapshot_id for item_row in places)),
        finished=finished_count.number if finished_count else 0,
        total=row.total,
        evidence_digest=row.evidence_digest,
        created_at=row.created_at,
        completed_at=row.completed_at,
    )
