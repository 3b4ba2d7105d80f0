"""`traceforge serve` in a soak: two servers on one database, one that lasts and one that is killed.

Each writer has a branch of its own, and all share one. A request without an answer is sent again with its idempotency
key, to either server, until it is answered: then its events are there, once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from support.command import COMMAND
from support.operation_store import Store
from support.soak.numbered_calls import answer_text, make_request
from support.soak.soak_part import SoakMachine, SoakPart
from support.soak.soak_process import SoakProcess
from traceforge.context import Client
from traceforge.context.api.client_verification import verify_store
from traceforge.context.model.inputs import NewEvent
from traceforge.context.model.objects import EventType
from traceforge.errors import BranchConflict, StoreRefused, StoreUnavailable

WRITERS, PAUSE_SECONDS = 3, 0.25
RETRY_SECONDS_MAX = 180
BRANCH_EVENTS_MAX = 60  # Then a writer begins another session: a conversation that grows for ever takes ever more.
RETRIED_STATUSES = (409, 429, 503)  # A request with the same key is at work, or its process died a moment ago.


class _Branch(NamedTuple):
    """Where a writer appends, and what must be there in the end."""

    session_id: str
    branch_id: str
    contents: list[str]


class SoakStore(SoakPart):
    """Two servers on one database."""

    def __init__(self, name: str, machine: SoakMachine, target: str, database: Any = None) -> None:
        super().__init__(name, machine)
        self._target = target
        self._keys = str(machine.folder / f"{name}.keys")
        self._project = machine.new_project(name)
        self._database = database  # A PostgreSQL server; SQLite has none to restart.
        self._restarts = self._kills = 0
        self._lasting = self._start()
        self.lasting = {f"serve {name}": self._lasting}
        self._killed = self._start()
        self._own_lock = threading.Lock()
        self._shared_lock = threading.Lock()
        self._own: dict[str, list[_Branch]] = {}  # By writer; it writes to the last one.
        self._shared = self._new_branch()
        self.start_load(self._write, WRITERS, PAUSE_SECONDS)

    def _start(self) -> SoakProcess:
        words = [str(COMMAND), "serve", "--port", "0", "--json", "--db", self._target, "--keys", self._keys]
        words += ["--upstream", f"openai={self.machine.provider}"]
        return SoakProcess(words, self._project, self.machine.clock.variables)

    def faults(self) -> list[Callable[[], str]]:
        return [self._kill_server, *([self._restart_database] if self._database is not None else [])]

    def writers(self) -> list[int]:
        return [self._lasting.pid, self._killed.pid]

    def _kill_server(self) -> str:
        self._kills += 1
        self._killed.kill()
        self._killed = self._start()
        return f"killed a server of {self.name}"

    def _restart_database(self) -> str:
        self._restarts += 1
        self._database.stop()
        time.sleep(2 * self.random.random())
        self._database.start()
        return "restarted PostgreSQL"

    def _new_branch(self) -> _Branch:
        session = self._ask(
            lambda client: client.create_session(idempotency_key=f"{self.name} {time.monotonic_ns()}")
        )
        return _Branch(session.id, session.default_branch_id, [])

    def _ask(self, request: Callable[[Client], Any]) -> Any:
        """Send a request, to one server or the other, until it is answered."""
        until = time.monotonic() + RETRY_SECONDS_MAX
        while True:
            process = self._lasting if threading.get_ident() + time.monotonic_ns() & 1 else self._killed
            try:
                with Client.connect(process.ready["url"]) as client:
                    return request(client)
            except BranchConflict:
                raise
            except StoreUnavailable as exc:
                error: Exception = exc
            except StoreRefused as exc:
                if exc.status not in RETRIED_STATUSES:
                    raise
                error = exc
            assert time.monotonic() < until, f"{self.name}: still refused after {RETRY_SECONDS_MAX} s: {error!r}"
            time.sleep(0.3)

    def _write(self, writer: str, number: int) -> None:
        branch = self._choose_branch(writer)
        text = json.loads(make_request(self.machine.seed, writer, number))["messages"][0]["content"]
        if number % 5 == 0:
            self._respond(branch, text)
        elif number % 7 == 0:
            self._append_shared(text)
        else:
            self._append(branch, text)
        if number % 11 == 0:
            self._ask(lambda client: client.create_snapshot(branch.session_id, branch.branch_id))

    def _choose_branch(self, writer: str) -> _Branch:
        with self._own_lock:
            branches = self._own.setdefault(writer, [])
        if not branches or len(branches[-1].contents) >= BRANCH_EVENTS_MAX:
            branches.append(self._new_branch())
        return branches[-1]

    def _append(self, branch: _Branch, text: str) -> None:
        """The branch belongs to this writer: a conflict would mean that an event is there which nobody sent."""
        state = self._ask(lambda client: client.get_branch(branch.session_id, branch.branch_id))
        assert len(branch.contents) == state.version, f"{len(branch.contents)} acknowledged, {state.version} there"
        self._send_event(branch, text, state.version, state.head_event_id)
        branch.contents.append(text)

    def _append_shared(self, text: str) -> None:
        """After a conflict, with the new head."""
        state = self._ask(lambda client: client.get_branch(self._shared.session_id, self._shared.branch_id))
        version, head = state.version, state.head_event_id
        for _ in range(1000):
            try:
                self._send_event(self._shared, text, version, head)
            except BranchConflict as exc:
                version, head = exc.version, exc.head_event_id
            else:
                with self._shared_lock:
                    self._shared.contents.append(text)
                return
        raise AssertionError("a thousand conflicts")

    def _send_event(self, branch: _Branch, text: str, version: int, head: str | None) -> None:
        event = NewEvent(event_type=EventType.USER_MESSAGE, content=text)
        key = f"append {_name_of(text)} at {version}"
        stored = self._ask(
            lambda client: client.append_event(
                branch.session_id, branch.branch_id, expected_version=version, expected_head_event_id=head,
                event=event, idempotency_key=key,
            )
        )  # fmt: skip
        assert text == stored.content

    def _respond(self, branch: _Branch, text: str) -> None:
        """Have the model answer: the text and the answer are appended."""
        response = self._ask(
            lambda client: client.create_response(
                model="openai/m",
                session_id=branch.session_id,
                input=text,
                idempotency_key=f"respond {_name_of(text)}",
            )
        )
        assert ("completed", answer_text(text)) == (response.status, (response.output or {}).get("content"))
        branch.contents.extend([text, answer_text(text)])

    def finish(self) -> str:
        with Client.connect(self._lasting.ready["url"]) as client:
            for branch in self._list_own():
                events = list(client.iterate_events(branch.session_id, branch.branch_id))
                assert branch.contents == [event.content for event in events], "acknowledged and stored events differ"
                assert list(range(1, len(events) + 1)) == [event.sequence for event in events]
            shared = [str(event.content) for event in client.iterate_events(*self._shared[:2])]
            assert sorted(self._shared.contents) == sorted(shared), "acknowledged and stored events differ"
            assert verify_store(client).valid
        for process in (self._killed, self._lasting):
            process.stop()
        with closing(Store.open(self._target, keys=self._keys)) as store:
            assert store.verify().valid
        written = len(shared) + sum(len(branch.contents) for branch in self._list_own())
        return (
            f"{self.name}: {written} events, {self._kills} kills of a server, {self._restarts} restarts of PostgreSQL"
        )

    def _list_own(self) -> list[_Branch]:
        return [branch for branches in self._own.values() for branch in branches]

    def discard(self) -> None:
        for process in (self._lasting, self._killed):
            process.discard()


def _name_of(text: str) -> str:
    """The writer and the number with which a text begins."""
    return text.partition(":")[0]
