"""Appends a second on one branch, on 64 and over HTTP; the cost of a long history for a compilation and a fork."""

from __future__ import annotations

import os
import random
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import msgspec
import psycopg

from harness import Row, at_most, is_quick, measure
from support.context_builders import fork_branch
from support.databases import new_database, postgres_server
from support.operation_store import Store
from traceforge.context.history import events
from traceforge.context.model.inputs import Append, NewEvent, NewSession, NewSnapshot
from traceforge.context.model.objects import Event, EventType, Session
from traceforge.context.storage.tables import events as events_table
from traceforge.ids import new_id

APPEND_GOAL = 0.6  # of a bare loop that does the same statements
COMPILE_GOAL = 2.0  # times, at 10,000 events against 100
FORK_GOAL = 1.5
HTTP_GOAL = 2.0  # times an append in process: the server costs no more than the database
APPENDS = 192  # a round
BRANCHES = 64
SHORT_HISTORY, LONG_HISTORY = 100, 10_000  # events
WORDS = "the quick brown fox jumps over the lazy dog " * 5  # a message of 220 bytes

Bare = Callable[[Store, str, list[Session]], Callable[[], None]]


def rows() -> Iterator[Row]:
    """Each database in turn."""
    folder = tempfile.mkdtemp(prefix="traceforge-bench-")
    try:
        yield from _rows("SQLite", str(Path(folder) / "context.db"), folder, _bare_sqlite)
        with postgres_server(on_disk=True) as server, new_database(server) as url:
            yield from _rows("PostgreSQL", url, folder, _bare_postgres)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rounds() -> int:
    return 5 if is_quick() else 15


def _rows(name: str, target: str, folder: str, bare: Bare) -> Iterator[Row]:
    store = Store.open(target, keys=str(Path(folder) / f"{name}.keys"))
    try:
        for count, branches in ((1, "1 branch"), (BRANCHES, f"{BRANCHES} branches")):
            ours = [store.create_session(NewSession()) for _ in range(count)]
            theirs = [store.create_session(NewSession()) for _ in range(count)]
            yield _appends(f"{name}: append, {branches}", _append_by_store(store, ours), bare(store, target, theirs))
        yield _over_http(name, store, target, str(Path(folder) / f"{name}.keys"))
        yield from _long_history_rows(name, store)
    finally:
        store.close()


def _appends(title: str, ours: Callable[[], None], peer: Callable[[], None]) -> Row:
    """In wall-clock time: most of it is the wait for the disk, for both."""
    mine, theirs = measure(ours, peer, _rounds(), 1, time.perf_counter)
    speed = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
    rate = APPENDS / statistics.median(mine)
    result = f"{rate:,.0f}/s, {speed:.2f}x, goal {APPEND_GOAL:g}x"
    best = min(mine) / APPENDS, min(theirs) / APPENDS
    return Row(title, *best, "the same statements, bare driver", speed, result, speed >= APPEND_GOAL)


def _over_http(name: str, store: Store, target: str, keys: str) -> Row:
    """One caller, one append after the other, with and without a server: the difference is the server's cost."""
    http_session, local_session = store.create_session(NewSession()), store.create_session(NewSession())
    with _running_server(target, keys) as (host, port), socket.create_connection((host, port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return at_most(
            f"{name}: append over HTTP",
            _append_by_http(sock, f"{host}:{port}", http_session),
            _append_by_store(store, [local_session]),
            peer_name=f"{APPENDS} in process",
            goal=HTTP_GOAL,
            rounds=_rounds(),
        )


@contextmanager
def _running_server(target: str, keys: str) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "traceforge", "serve", "--port", "0", "--db", target, "--keys", keys, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as server:
        assert server.stdout is not None
        try:
            url = urlsplit(msgspec.json.decode(server.stdout.readline())["url"])
            yield str(url.hostname), int(url.port or 0)
        finally:
            server.terminate()


def _append_by_http(sock: socket.socket, host: str, session: Session) -> Callable[[], None]:
    """A client that costs next to nothing, so that the server is measured."""
    path = f"/v2/sessions/{session.id}/branches/{session.default_branch_id}/events"
    head: tuple[int, str | None] = 0, None

    def work() -> None:
        nonlocal head
        for _ in range(APPENDS):
            event = {"event_type": "user_message", "content": WORDS}
            body = msgspec.json.encode(
                {"expected_version": head[0], "expected_head_event_id": head[1], "event": event}
            )
            start = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            sock.sendall(f"{start}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            event_reply = msgspec.json.decode(_read_response_body(sock))
            head = event_reply["sequence"], event_reply["id"]

    return work


def _read_response_body(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(1 << 16)
    top, _, body = data.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 201"), data
    length = int(top.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += sock.recv(1 << 16)
    return body


def _append_by_store(store: Store, sessions: list[Session]) -> Callable[[], None]:
    heads: list[tuple[int, str | None]] = [(0, None)] * len(sessions)

    def work() -> None:
        for number in range(APPENDS):
            place = number % len(sessions)
            event = _append(store, sessions[place], *heads[place])
            heads[place] = event.sequence, event.id

    return work


def _append(store: Store, session: Session, version: int, head: str | None) -> Event:
    event = NewEvent(event_type=EventType.USER_MESSAGE, content=WORDS)
    body = Append(expected_version=version, expected_head_event_id=head, event=event)
    return store.append_event(session.id, session.default_branch_id, body)


class _AppendStatements:
    """The statements of an append, with prepared values, and nothing else."""

    def __init__(self, store: Store, sessions: list[Session]) -> None:
        dialect = store.database.engine.dialect
        self.texts = [
            statement.compile_for(dialect)
            for statement in (events._BRANCH_STATE, events._MOVE_HEAD, events._INSERT_EVENT)
        ]
        self.project, self.sessions = store.project_id, sessions
        self.heads: list[tuple[int, str | None]] = [(0, None)] * len(sessions)
        self.sealed, self.wrapped = random.randbytes(len(WORDS) + 31), random.randbytes(60)
        self.rounds = [self.values() for _ in range(_rounds() + 1)][::-1]

    def values(self) -> list[list[Any]]:
        """The values of each append of a round."""
        appends = []
        for number in range(APPENDS):
            place = number % len(self.sessions)
            session, (version, head) = self.sessions[place], self.heads[place]
            branch = session.default_branch_id
            row = dict.fromkeys(column.name for column in events_table.c if column.name != "purged_by")
            row |= {
                "id": new_id("evt"), "project_id": self.project, "session_id": session.id, "branch_id": branch,
                "parent_event_id": head, "sequence": version + 1, "event_type": "user_message", "role": "user",
                "kind": "user_message", "content_digest": "sha256:" + "0" * 64, "block_id": new_id("blk"),
                "sealed": self.sealed, "wrapped_key": self.wrapped, "generation": 1,
                "created_at": "2026-01-01T00:00:00.000Z",
            }  # fmt: skip
            state = {"branch": branch, "session": session.id, "project": self.project}
            move = {
                "branch": branch, "seen_version": version, "seen_head": head, "new_head": row["id"],
                "new_version": version + 1,
            }  # fmt: skip
            self.heads[place] = version + 1, str(row["id"])
            by_name = (state, move, row)
            appends.append(
                [
                    values if names is None else [values[name] for name in names]
                    for (_, names), values in zip(self.texts, by_name, strict=True)
                ]
            )
        return appends


def _bare_sqlite(store: Store, target: str, sessions: list[Session]) -> Callable[[], None]:
    connection = sqlite3.connect(target, isolation_level=None)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")
    prepared = _AppendStatements(store, sessions)
    (state, _), (move, _), (insert, _) = prepared.texts
    cursor = connection.cursor()

    def work() -> None:
        for first, second, third in prepared.rounds.pop():
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute(state, first).fetchone()
            cursor.execute(move, second)
            cursor.execute(insert, third)
            cursor.execute("COMMIT")

    return work


def _bare_postgres(store: Store, target: str, sessions: list[Session]) -> Callable[[], None]:
    connection = psycopg.connect(target)
    prepared = _AppendStatements(store, sessions)
    (state, _), (move, _), (insert, _) = prepared.texts
    cursor = connection.cursor()

    def work() -> None:
        for first, second, third in prepared.rounds.pop():
            cursor.execute(state, first).fetchone()
            cursor.execute(move, second)
            cursor.execute(insert, third)
            connection.commit()

    return work


def _long_history_rows(name: str, store: Store) -> Iterator[Row]:
    short, long = _session_with_events(store, SHORT_HISTORY), _session_with_events(store, LONG_HISTORY)
    for session in (short, long):
        _append_and_compile(store, session)
    rounds = _rounds()
    yield at_most(
        f"{name}: append one and compile",
        lambda: [_append_and_compile(store, long) for _ in range(8)],
        lambda: [_append_and_compile(store, short) for _ in range(8)],
        peer_name=f"{LONG_HISTORY:,} events against {SHORT_HISTORY}",
        goal=COMPILE_GOAL,
        rounds=rounds,
    )
    yield at_most(
        f"{name}: fork at the head",
        lambda: [fork_branch(store, long) for _ in range(16)],
        lambda: [fork_branch(store, short) for _ in range(16)],
        peer_name=f"{LONG_HISTORY:,} events against {SHORT_HISTORY}",
        goal=FORK_GOAL,
        rounds=rounds,
    )


def _session_with_events(store: Store, count: int) -> Session:
    session = store.create_session(NewSession())

    def fill(joined: Store) -> None:
        version, head = 0, None
        for _ in range(count):
            event = _append(joined, session, version, head)
            version, head = event.sequence, event.id

    store.transaction(fill)
    return session


def _append_and_compile(store: Store, session: Session) -> None:
    branch = store.get_branch(session.id, session.default_branch_id)
    _append(store, session, branch.version, branch.head_event_id)
    store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())
