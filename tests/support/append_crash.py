"""Kill an idempotent append before and after each SQL statement and its commit, then retry it.

Runs as a program of its own, `python -m support.append_crash DATABASE KEYS`, because it forks a victim for each step
and a test runner should not fork. Prints how often it killed the append, and what was wrong after the retry.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import event
from sqlalchemy.engine import Engine

from support.operation_store import Store
from traceforge.context.api.idempotency import EncodedResponse, perform_operation
from traceforge.context.api.operation_types import OperationArguments
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.model.inputs import Append, NewEvent, NewSession
from traceforge.context.model.objects import EventType

STEPS_MAX = 60


class CrashReport(NamedTuple):
    """How often the append was killed, and what was wrong after its retries."""

    kills: int
    statements: int
    before: int
    after: int
    wrong: list[str]


def append_once(store: Store, session_id: str, branch_id: str) -> EncodedResponse:
    """Append the same event with the same idempotency key every time."""
    event_body = {"event_type": "user_message", "content": "once"}
    body = {"expected_version": 0, "expected_head_event_id": None, "event": event_body}
    event = NewEvent(event_type=EventType.USER_MESSAGE, content="once")
    typed = Append(expected_version=0, expected_head_event_id=None, event=event)
    return perform_operation(
        store, OPERATIONS_BY_NAME["append_event"], OperationArguments((session_id, branch_id), typed), "key", body
    )


def kill_at_every_statement(target: str, keys: str) -> CrashReport:
    """Kill a fresh append at step 1, 2, 3 …, until one survives; retry each twice and check the branch."""
    process = subprocess.run(
        [sys.executable, "-m", "support.append_crash", target, keys],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        check=False, capture_output=True, timeout=120,
    )  # fmt: skip
    assert 0 == process.returncode, process.stderr.decode()
    return CrashReport(**json.loads(process.stdout))


def _kill_all(target: str, keys: str) -> CrashReport:
    store = Store.open(target, keys=keys)
    before = after = 0
    wrong: list[str] = []
    for step in range(1, STEPS_MAX):
        session = store.create_session(NewSession())
        at = (session.id, session.default_branch_id)
        child = os.fork()
        if not child:
            _die(store, *at, step)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            return CrashReport(step - 1, step - 1, before, after, wrong)
        assert -signal.SIGKILL == code
        landed = len(store.list_events(*at).data)
        before, after = before + (landed == 0), after + (landed == 1)
        answers = {append_once(store, *at) for _ in range(2)}
        events = store.list_events(*at).data
        head = store.get_branch(*at)
        if len(answers) != 1 or len(events) != 1 or (head.version, head.head_event_id) != (1, events[0].id):
            wrong.append(f"step {step}: {len(answers)} answers, {len(events)} events, version {head.version}")
    raise AssertionError("it was never done")


class _Killer:
    def __init__(self, at: int) -> None:
        self._left = at

    def step(self, *_: Any, **__: Any) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _die(store: Store, session_id: str, branch_id: str, at: int) -> None:
    killer = _Killer(at)
    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, name, killer.step)
    append_once(store, session_id, branch_id)
    killer.step()  # Committed, and the answer lost.
    os._exit(0)


if __name__ == "__main__":
    print(json.dumps(_kill_all(*sys.argv[1:])._asdict()))  # noqa: T201 (its answer)
