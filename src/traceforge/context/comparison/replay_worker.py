"""The work of a replay run: every unfinished item, as many at once as the run allows.

In: a run. Out: its items, kept as they finish, and its report. Never: an item that is finished done again; work on a
run that somebody else works on.

A run is worked on under a lease. A process that dies leaves its finished items behind; whoever claims the run next
does the others.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast

from traceforge.canon import JSON, JSONObject
from traceforge.context.api.context_store import Store
from traceforge.context.comparison import replay_runs
from traceforge.context.comparison.replay_lanes import (
    Answers,
    Ask,
    Lane,
    Work,
    ask_both,
    judge,
    lane_json,
    question_json,
    read_lane,
)
from traceforge.context.comparison.replay_runs import is_turn, turn_places
from traceforge.context.compiler.block_contents import open_origins, open_snapshot
from traceforge.context.compiler.branch_compilation import block_origins
from traceforge.context.compiler.compiler_revisions import find_compiler
from traceforge.context.compiler.pinned_snapshots import load_snapshot, snapshot_path
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import Progress, ReplayRun
from traceforge.context.responses.model_calls import Models
from traceforge.context.responses.model_releases import get_release
from traceforge.context.responses.prompt_rendering import render
from traceforge.context.responses.response_generation import question_for, said
from traceforge.context.responses.target_choice import choose
from traceforge.context.storage.leases import keep_lease
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.errors import ContentPurged, StoreRefused, StoreUnavailable
from traceforge.modelio.model_call import ModelCall
from traceforge.wire.endpoints import Dialect

Take = Callable[[Answers], bool]  # Keeps the answers of an item; False: the run is over.


class Engine(Protocol):
    """Where the models are asked from."""

    def run(self, load: Callable[[int], Work | None], positions: Sequence[int], concurrency: int, take: Take) -> None:
        """Do the work of these positions, as many at once; `load` gives it, `take` takes what came of it."""
        ...

    def stop(self) -> None:
        """Begin nothing more, and end what is in flight."""
        ...


class Threads:
    """Asks from this process: asyncio decides how many at once, threads wait for the answers."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._flying: set[ModelCall] = set()

    def run(self, load: Callable[[int], Work | None], positions: Sequence[int], concurrency: int, take: Take) -> None:
        """As the engine says."""
        with ThreadPoolExecutor(concurrency, "traceforge-replay") as pool:

            def one(position: int) -> None:
                work = None if self._over.is_set() else load(position)
                if work is None:
                    return
                answers = self._ask(work)
                if not self._over.is_set() and not take(answers):
                    self.stop()

            async def everything() -> None:
                room = asyncio.Semaphore(concurrency)
                loop = asyncio.get_running_loop()

                async def bounded(position: int) -> None:
                    async with room:
                        if not self._over.is_set():
                            await loop.run_in_executor(pool, one, position)

                async with asyncio.TaskGroup() as group:
                    for position in positions:
                        group.create_task(bounded(position))

            asyncio.run(everything())

    def stop(self) -> None:
        """As the engine says."""
        self._over.set()
        with self._lock:
            flying = list(self._flying)
        for one in flying:
            one.cancel()

    def _ask(self, work: Work) -> Answers:
        held: list[ModelCall] = []

        def hold(asking: ModelCall) -> None:
            held.append(asking)
            with self._lock:
                self._flying.add(asking)
            if self._over.is_set():
                asking.cancel()

        try:
            return ask_both(self._models, work, hold)
        finally:
            with self._lock:
                self._flying.difference_update(held)


def execute(store: Store, run_id: str, engine: Engine | None = None) -> ReplayRun:
    """Do what is left of a run, and make its report; one that somebody works on, or that is over, stays as it is."""
    if not store.write(lambda tx: replay_runs.claim(tx, run_id)):
        return store.get_replay_run(run_id)
    engine = engine or Threads(store.models)
    with (
        store.running(run_id, engine.stop),
        keep_lease(lambda: store.write(lambda tx: replay_runs.renew(tx, run_id)), engine.stop),
    ):
        try:
            _work(store, run_id, engine)
        except (StoreRefused, ContentPurged) as exc:
            reason = exc.reason
            store.write(lambda tx: replay_runs.fail(tx, run_id, reason))
    return store.get_replay_run(run_id)


def start(store: Store, run_id: str) -> threading.Thread:
    """The same in a thread, which does not keep the process alive: what is left is done the next time."""

    def work() -> None:
        try:
            execute(store, run_id)
        except StoreUnavailable:
            return  # Its lease runs out.

    thread = threading.Thread(target=work, name="traceforge-replay-run", daemon=True)
    thread.start()
    return thread


def _work(store: Store, run_id: str, engine: Engine) -> None:
    run, rows = store.read(lambda tx: (replay_runs.load(tx, run_id), replay_runs.items(tx, run_id)))
    left = [row.position for row in rows if row.status == Progress.QUEUED.value]
    item = _Trajectory(store, run, rows) if run.mode == "trajectory" else _SingleTurns(store, run, rows)

    def take(answers: Answers) -> bool:
        found = item.found(answers)
        return store.write(lambda tx: replay_runs.keep_item(tx, rows[answers.position], found))

    if run.mode == "trajectory":
        for position in left:  # One after the other: each begins with what the one before answered.
            engine.run(item.work, [position], 1, take)
    else:
        engine.run(item.work, left, run.concurrency, take)
    if all(row.status != Progress.QUEUED.value for row in store.read(lambda tx: replay_runs.items(tx, run_id))):
        store.write(lambda tx: replay_runs.finish(tx, run_id))


class _SingleTurns:
    """Items that are snapshots: each is asked as it is pinned."""

    def __init__(self, store: Store, run: AnyRow, rows: Sequence[AnyRow]) -> None:
        self._store = store
        self._run = run
        self._rows = rows
        self._questions: dict[int, JSON] = {}  # Of the items that are being asked.

    def work(self, position: int) -> Work | None:
        return self._store.read(lambda tx: self._work(tx, position))

    def found(self, answers: Answers) -> JSONObject:
        row = self._rows[answers.position]
        recorded = self._store.read(lambda tx: replay_runs.recorded_lane(tx, row.response_id))[0]
        return _found(self._questions.pop(answers.position), recorded, answers)

    def _work(self, tx: StoreTransaction, position: int) -> Work:
        row = self._rows[position]
        snapshot = load_snapshot(tx, row.snapshot_id)
        params = replay_runs.recorded_lane(tx, row.response_id)[1]
        self._questions[position] = question_json(open_snapshot(tx, snapshot))

        def ask(release_id: str) -> Ask:
            question = question_for(tx, snapshot, get_release(tx, release_id), params)
            return Ask(question.target, question.messages, question.parameters, snapshot.session_id)

        fresh = ask(self._run.baseline) if self._run.fresh_baseline else None
        return Work(position, fresh, ask(self._run.candidate))


class _Trajectory:
    """Items that are turns of one session: each lane goes on from what it answered itself."""

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
        self._said: dict[int, JSONObject] = {
            row.position: replay_runs.open_item(tx, row) for row in self._rows if row.sealed is not None
        }

    def work(self, position: int) -> Work | None:
        fresh = self._ask("fresh_baseline", position) if self._run.fresh_baseline else None
        return Work(position, fresh, self._ask("candidate", position))

    def found(self, answers: Answers) -> JSONObject:
        response_id = self._rows[answers.position].response_id
        recorded = self._store.read(lambda tx: replay_runs.recorded_lane(tx, response_id))[0]
        question = question_json(self._blocks[: self._places[answers.position]])
        found = _found(question, recorded or self._logged(answers.position), answers)
        self._said[answers.position] = found
        return found

    def _logged(self, position: int) -> Lane | None:
        """An answer that stands on the branch and that no response gave."""
        place = self._places[position]
        if place >= len(self._blocks):
            return None
        content = self._blocks[place].content
        message = content if isinstance(content, dict) else {"role": "assistant", "content": cast("JSON", content)}
        return Lane(None, message)

    def _ask(self, lane: str, position: int) -> Ask:
        release = self._releases[lane]
        target = release.targets[choose(release.id, self._snapshot.id, [one.weight for one in release.targets])]
        rendered = render(self._seen(lane, position), Dialect(target.provider), target.params)
        return Ask(target, rendered.messages, rendered.parameters, self._snapshot.session_id)

    def _seen(self, lane: str, position: int) -> list[ContentBlock]:
        """What a lane sees at a turn: what was logged, and in place of the answers its own."""
        end = self._places[position]
        blocks: dict[str, ContentBlock] = {}
        for place in range(end):
            block = self._blocks[place]
            if is_turn(self._origins, place):
                block = self._own(lane, self._places.index(place), block)
            blocks[block.block_id] = block
        ordered = find_compiler(self._snapshot.revision).order([one.source for one in self._origins[:end]])
        return [blocks[one.block_id] for one in ordered]

    def _own(self, lane: str, position: int, block: ContentBlock) -> ContentBlock:
        found = self._said[position]
        answered = read_lane(cast("Mapping[str, JSON]", found["lanes"])[lane])
        if answered is None or answered.output is None:
            return block  # It gave no answer: it goes on with the one that was logged, and the item says so.
        return block._replace(content=cast("JSON", said(answered.output)))


def _found(question: JSON, recorded: Lane | None, answers: Answers) -> JSONObject:
    lanes: JSONObject = {
        "recorded": lane_json(recorded),
        "fresh_baseline": lane_json(answers.fresh),
        "candidate": lane_json(answers.candidate),
    }
    return {"question": question, "lanes": lanes, **judge(recorded, answers.fresh, answers.candidate)}
