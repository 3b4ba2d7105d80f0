"""Execute a replay run: every unfinished item, as many at once as the run allows.

Never: repeats a finished item, or works on a run that another process has.

A worker has a lease on its run. Items are stored as they finish, so the process that takes over after a crash does
only the others.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast

from traceforge.canon import JSON, JSONObject
from traceforge.context.comparison import replay_runs
from traceforge.context.comparison.replay_lanes import (
    ItemAnswers,
    ItemRequests,
    LaneAnswer,
    LaneRequest,
    compare_lanes,
    lane_json,
    question_json,
    read_lane,
    run_item,
)
from traceforge.context.comparison.replay_runs import is_turn, read_recorded_call, turn_places
from traceforge.context.compiler.block_contents import open_origins, open_snapshot
from traceforge.context.compiler.branch_compilation import block_origins
from traceforge.context.compiler.compiler_revisions import find_compiler
from traceforge.context.compiler.pinned_snapshots import load_snapshot, snapshot_path
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.inputs import NewReplayRun
from traceforge.context.model.objects import Progress, ReplayRun
from traceforge.context.model_calls import ModelClients
from traceforge.context.project_store import Store
from traceforge.context.responses.model_releases import get_release
from traceforge.context.responses.renderer_revisions import find_renderer
from traceforge.context.responses.response_generation import answer_content, build_model_request
from traceforge.context.responses.stored_responses import call_parameters
from traceforge.context.responses.target_choice import choose_target
from traceforge.context.storage.leases import keep_lease
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.errors import ContentPurged, StoreRefused, StoreUnavailable
from traceforge.modelio.model_call import ModelCall
from traceforge.wire.endpoints import Dialect

StoreAnswers = Callable[[ItemAnswers], bool]  # Stores the answers of an item; False if the run has ended.


class ReplayEngine(Protocol):
    """Where models are called from."""

    def run(
        self,
        load: Callable[[int], ItemRequests | None],
        positions: Sequence[int],
        concurrency: int,
        store_answers: StoreAnswers,
    ) -> None:
        """Do the items at these positions, `concurrency` at once; `load` gives requests."""
        ...

    def stop(self) -> None:
        """Start no more items, and cancel the calls in flight."""
        ...


class ThreadEngine:
    """Calls models from this process: asyncio limits how many at once, threads wait for the answers."""

    def __init__(self, models: ModelClients) -> None:
        self._models = models
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._calls_in_flight: set[ModelCall] = set()

    def run(
        self,
        load: Callable[[int], ItemRequests | None],
        positions: Sequence[int],
        concurrency: int,
        store_answers: StoreAnswers,
    ) -> None:
        with ThreadPoolExecutor(concurrency, "traceforge-replay") as pool:

            def run_position(position: int) -> None:
                requests = None if self._stopped.is_set() else load(position)
                if requests is None:
                    return
                answers = self._run_item(requests)
                if not self._stopped.is_set() and not store_answers(answers):
                    self.stop()

            async def run_all() -> None:
                slots = asyncio.Semaphore(concurrency)
                loop = asyncio.get_running_loop()

                async def run_in_slot(position: int) -> None:
                    async with slots:
                        if not self._stopped.is_set():
                            await loop.run_in_executor(pool, run_position, position)

                async with asyncio.TaskGroup() as group:
                    for position in positions:
                        group.create_task(run_in_slot(position))

            asyncio.run(run_all())

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            calls = list(self._calls_in_flight)
        for call in calls:
            call.cancel()

    def _run_item(self, requests: ItemRequests) -> ItemAnswers:
        calls: list[ModelCall] = []

        def add_call(call: ModelCall) -> None:
            calls.append(call)
            with self._lock:
                self._calls_in_flight.add(call)
            if self._stopped.is_set():
                call.cancel()

        try:
            return run_item(self._models, requests, add_call)
        finally:
            with self._lock:
                self._calls_in_flight.difference_update(calls)


def execute_run(store: Store, run_id: str, engine: ReplayEngine | None = None) -> ReplayRun:
    """Do the unfinished items of a run and write its report; no effect if it has ended or another process has it."""
    if not store.write(lambda tx: replay_runs.claim_run(tx, run_id)):
        return store.read(lambda tx: replay_runs.get_run(tx, run_id))
    engine = engine or ThreadEngine(store.models)
    with (
        store.models.running(run_id, engine.stop),
        keep_lease(lambda: store.write(lambda tx: replay_runs.renew_run_lease(tx, run_id)), engine.stop),
    ):
        try:
            _work_on_run(store, run_id, engine)
        except (StoreRefused, ContentPurged) as exc:
            reason = exc.reason
            store.write(lambda tx: replay_runs.fail_run(tx, run_id, reason))
    return store.read(lambda tx: replay_runs.get_run(tx, run_id))


def create_replay_run(store: Store, body: NewReplayRun, *, start: bool = True) -> ReplayRun:
    """Insert a replay run, and start its worker unless the store has joined a transaction."""
    run = store.write(lambda tx: replay_runs.create_run(tx, body))
    if start and not store.is_joined:
        resume_replay_runs(store)
    return run


def cancel_replay_run(store: Store, run_id: str) -> ReplayRun:
    """Cancel a run, at once if it runs in this process. Finished items stay."""
    canceled = store.write(lambda tx: replay_runs.cancel_run(tx, run_id))
    store.models.cancel(run_id)
    return canceled


def resume_replay_runs(store: Store) -> list[str]:
    """Start workers for new runs and for those whose process died."""
    run_ids = store.read(replay_runs.list_unclaimed_runs)
    for run_id in run_ids:
        start_worker(store, run_id)
    return run_ids


def start_worker(store: Store, run_id: str) -> threading.Thread:
    """Execute a run in a daemon thread: if the process ends, a later one resumes the run."""

    def work() -> None:
        try:
            execute_run(store, run_id)
        except StoreUnavailable:
            return  # Its lease expires.
        except ContentPurged:
            return  # The run was purged while it ran: nothing of it is left.

    thread = threading.Thread(target=work, name="traceforge-replay-run", daemon=True)
    thread.start()
    return thread


def _work_on_run(store: Store, run_id: str, engine: ReplayEngine) -> None:
    run, rows = store.read(lambda tx: (replay_runs.load_run(tx, run_id), replay_runs.list_items(tx, run_id)))
    queued_positions = [row.position for row in rows if row.status == Progress.QUEUED.value]
    item = _Trajectory(store, run, rows) if run.mode == "trajectory" else _SingleTurns(store, run, rows)

    def store_answers(answers: ItemAnswers) -> bool:
        result = item.item_result(answers)
        return store.write(lambda tx: replay_runs.store_item(tx, rows[answers.position], result))

    if run.mode == "trajectory":
        for position in queued_positions:  # In order: each turn builds on the answers of the one before.
            engine.run(item.item_requests, [position], 1, store_answers)
    else:
        engine.run(item.item_requests, queued_positions, run.concurrency, store_answers)
    if all(row.status != Progress.QUEUED.value for row in store.read(lambda tx: replay_runs.list_items(tx, run_id))):
        store.write(lambda tx: replay_runs.finish_run(tx, run_id))


class _SingleTurns:
    """Items that are snapshots: each is sent as it is pinned."""

    def __init__(self, store: Store, run: AnyRow, rows: Sequence[AnyRow]) -> None:
        self._store = store
        self._run = run
        self._rows = rows
        self._questions: dict[int, JSON] = {}  # Of the items in progress.

    def item_requests(self, position: int) -> ItemRequests | None:
        return self._store.read(lambda tx: self._work(tx, position))

    def item_result(self, answers: ItemAnswers) -> JSONObject:
        row = self._rows[answers.position]
        recorded = self._store.read(lambda tx: read_recorded_call(tx, row.response_id))
        return _result(self._questions.pop(answers.position), recorded.lane, answers)

    def _work(self, tx: StoreTransaction, position: int) -> ItemRequests:
        row = self._rows[position]
        snapshot = load_snapshot(tx, row.snapshot_id)
        recorded = read_recorded_call(tx, row.response_id)
        self._questions[position] = question_json(open_snapshot(tx, snapshot))

        def ask(release_id: str) -> LaneRequest:
            release = get_release(tx, release_id)
            question = build_model_request(tx, snapshot, release, recorded.params, recorded.renderer_revision)
            return LaneRequest(question.target, *question.prompt, snapshot.session_id)

        fresh = ask(self._run.baseline) if self._run.fresh_baseline else None
        return ItemRequests(position, fresh, ask(self._run.candidate))


class _Trajectory:
    """Items that are turns of one session: each lane continues with its own answers, and with the parameters that
    the turn was recorded with."""

    def __init__(self, store: Store, run: AnyRow, rows: Sequence[AnyRow]) -> None:
        self._store = store
        self._run = run
        self._rows = rows
        store.read(self._open)

    def _open(self, tx: StoreTransaction) -> None:
        self._snapshot = load_snapshot(tx, self._rows[0].snapshot_id)
        self._origins = block_origins(tx, self._snapshot.session_id, snapshot_path(tx, self._snapshot))
        self._blocks = open_origins(tx, self._origins)
        self._places = turn_places(self._origins)
        self._releases = {
            "fresh_baseline": get_release(tx, self._run.baseline),
            "candidate": get_release(tx, self._run.candidate),
        }
        self._answers_by_position: dict[int, JSONObject] = {
            row.position: replay_runs.open_item(tx, row) for row in self._rows if row.sealed is not None
        }

    def item_requests(self, position: int) -> ItemRequests | None:
        fresh = self._ask("fresh_baseline", position) if self._run.fresh_baseline else None
        return ItemRequests(position, fresh, self._ask("candidate", position))

    def item_result(self, answers: ItemAnswers) -> JSONObject:
        response_id = self._rows[answers.position].response_id
        recorded = self._store.read(lambda tx: read_recorded_call(tx, response_id)).lane
        question = question_json(self._blocks[: self._places[answers.position]])
        result = _result(question, recorded or self._logged(answers.position), answers)
        self._answers_by_position[answers.position] = result
        return result

    def _logged(self, position: int) -> LaneAnswer | None:
        """An answer on the branch that belongs to no response."""
        place = self._places[position]
        if place >= len(self._blocks):
            return None
        content = self._blocks[place].content
        message = content if isinstance(content, dict) else {"role": "assistant", "content": cast("JSON", content)}
        return LaneAnswer(None, message)

    def _ask(self, lane: str, position: int) -> LaneRequest:
        release = self._releases[lane]
        target = release.targets[
            choose_target(
                release.id, self._snapshot.id, [weighted_target.weight for weighted_target in release.targets]
            )
        ]
        response_id = self._rows[position].response_id
        recorded = self._store.read(lambda tx: read_recorded_call(tx, response_id))
        prompt = find_renderer(recorded.renderer_revision).render(
            self._blocks_before(lane, position), Dialect(target.provider), call_parameters(target, recorded.params)
        )
        return LaneRequest(target, *prompt, self._snapshot.session_id)

    def _blocks_before(self, lane: str, position: int) -> list[ContentBlock]:
        """The blocks that a lane sees at a turn: those of the branch, with its own answers."""
        end = self._places[position]
        blocks: dict[str, ContentBlock] = {}
        for place in range(end):
            block = self._blocks[place]
            if is_turn(self._origins, place):
                block = self._own_block(lane, self._places.index(place), block)
            blocks[block.block_id] = block
        ordered = find_compiler(self._snapshot.revision).order([origin.source for origin in self._origins[:end]])
        return [blocks[origin.block_id] for origin in ordered]

    def _own_block(self, lane: str, position: int, block: ContentBlock) -> ContentBlock:
        item_result = self._answers_by_position[position]
        answered = read_lane(cast("Mapping[str, JSON]", item_result["lanes"])[lane])
        if answered is None or answered.output is None:
            return block  # The lane failed: it continues with the recorded answer, and the item says so.
        return block._replace(content=cast("JSON", answer_content(answered.output)))


def _result(question: JSON, recorded: LaneAnswer | None, answers: ItemAnswers) -> JSONObject:
    lanes: JSONObject = {
        "recorded": lane_json(recorded),
        "fresh_baseline": lane_json(answers.fresh),
        "candidate": lane_json(answers.candidate),
    }
    return {"question": question, "lanes": lanes, **compare_lanes(recorded, answers.fresh, answers.candidate)}
