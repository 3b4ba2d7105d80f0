"""What processes that were entered say, made exchanges.

In: frames of any number of connections, each in its own order. Out: exchanges in the sink, with their places in their
sessions, and counts for the summary; in a replay, answers. Never: trusts a frame: what cannot be understood is
counted and left out, and where somebody waits for an answer, refused.
"""

from __future__ import annotations

import hmac
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from traceforge.capture.engine import Engine
from traceforge.capture.hook.frames import write_frame
from traceforge.capture.hook.replayed_response import Answer, refusal
from traceforge.capture.replay_responder import Replay
from traceforge.capture.source import apply_call_site
from traceforge.clock import timestamp_text
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange, Headers


class Begun(NamedTuple):
    """A call of which the end has not been told yet."""

    started_at: str
    method: str
    url: str
    headers: Headers
    caller: Caller


Reply = Callable[[bytes], object]

NAME_LENGTH_MAX = 300  # of a host that a process wanted to connect to
_OUTCOMES = ("passed", "skipped", "failed")  # of a test, the worst last


class ProcessReports:
    """Everything that was said so far. Safe to use from several threads."""

    def __init__(self, engine: Engine, token: str, replay: Replay | None = None) -> None:
        self._engine = engine
        self._token = token
        self._replay = replay
        self._lock = threading.Lock()
        self.processes: set[int] = set()  # that were entered
        self.hosts: Counter[str] = Counter()  # of calls that began
        self.unseen: Counter[str] = Counter()  # what could not be seen into
        self.faults: Counter[str] = Counter()  # what failed in a process that was entered
        self.ended = 0
        self.unfinished = 0  # calls whose process went away without a word
        self.lost = 0  # calls that a process could not hand over
        self.malformed = 0  # frames that were none
        self.too_large = 0
        self.replayed = 0  # calls that were answered from recordings, or refused because there is none
        self.refused_connections: Counter[tuple[str, str]] = (
            Counter()
        )  # connections that were refused: the place, and why
        self.started_programs: Counter[tuple[str, bool]] = Counter()  # programs; is it a Python that is lost to us?
        self.stack_starts: set[str] = set()  # of the processes, as `bootstrap.started_as` has it
        self.tests: dict[str, str] = {}  # by node id: how each ended


class ProcessConnection:
    """What one process says; `reply` sends it an answer."""

    def __init__(self, reports: ProcessReports, reply: Reply | None = None) -> None:
        self._reports = reports
        self._reply = reply or _discard_reply
        self._open_calls: dict[str, Begun] = {}
        self._is_authenticated = False

    def handle_frame(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        """One frame. False: it is not one of ours, and nothing more is to be heard."""
        reports = self._reports
        if head.get("kind") == "play" and self._is_authenticated:
            self._reply(self._replay(head, pieces))  # without the lock: a player has its own
            return True
        with reports._lock:
            try:
                return self._dispatch_frame(head, pieces)
            except (KeyError, TypeError, ValueError, OverflowError):
                reports.malformed += 1
                return self._is_authenticated

    def close(self) -> None:
        """The connection is over."""
        with self._reports._lock:
            self._reports.unfinished += len(self._open_calls)
            self._open_calls.clear()

    def _dispatch_frame(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        kind = head["kind"]
        if not self._is_authenticated:
            self._is_authenticated = kind == "hello" and hmac.compare_digest(str(head["token"]), self._reports._token)
            if self._is_authenticated:
                self._reports.processes.add(int(head["pid"]))
                self._reports.stack_starts.add(str(head.get("start", "")))
            return self._is_authenticated
        if kind == "begin":
            self._begin_call(head)
        elif kind == "end":
            self._end_call(head, pieces)
        elif kind == "note":
            self._reports.unseen[str(head["what"])] += 1
        elif kind == "shut":
            self._reports.refused_connections[str(head["place"])[:NAME_LENGTH_MAX], str(head["why"])] += 1
        elif kind == "started":
            self._reports.started_programs[str(head["name"])[:NAME_LENGTH_MAX], bool(head["lost"])] += 1
        elif kind == "test":
            self._record_test_event(str(head["scope"]), str(head["what"]))
            if head.get("asked"):
                self._reply(write_frame({"kind": "heard"}))
        elif kind == "refused":
            if self._reports._replay is not None:
                self._reports._replay.refused(str(head["why"]))
        elif kind == "bye":
            self._reports.lost += int(head["lost"])
            if head["faults"]:
                self._reports.faults[str(head["fault"])] += int(head["faults"])
        else:
            raise ValueError(kind)
        return True

    def _replay(self, head: dict[str, Any], pieces: list[bytes]) -> bytes:
        """The answer to a whole request, as a frame. Whatever is wrong with it, it gets one."""
        replay = self._reports._replay
        try:
            if replay is None:
                raise ValueError("this run replays nothing")
            (body,) = pieces
            headers, caller = _read_caller(head)
            url = str(head["url"])
            response = replay.answer(str(head["method"]), url, headers, body, caller)
        except (KeyError, TypeError, ValueError) as exc:
            why = f"a request could not be understood ({type(exc).__name__})"
            if replay is not None:
                replay.refused(why)
            return _response_frame(refusal(why))
        if response is None:
            return write_frame({"kind": "live"})
        with self._reports._lock:
            self._reports.replayed += 1
            self._reports.hosts[_host(url)] += 1
        return _response_frame(response)

    def _record_test_event(self, scope: str, what: str) -> None:
        """A test began, maybe once more, or one of its phases ended; the worst of them counts."""
        tests = self._reports.tests
        if what == "began":
            tests.pop(scope, None)
            if self._reports._replay is not None:
                self._reports._replay.player.restart_scope(scope)
        elif _OUTCOMES.index(what) >= _OUTCOMES.index(tests.get(scope, "passed")):
            tests[scope] = what

    def _begin_call(self, head: dict[str, Any]) -> None:
        headers, caller = _read_caller(head)
        placed = self._reports._engine.place(headers, caller)
        url = str(head["url"])
        self._reports.hosts[_host(url)] += 1
        started_at = timestamp_text(datetime.fromtimestamp(float(head["at"]), UTC))
        self._open_calls[head["id"]] = Begun(started_at, str(head["method"]), url, placed.upstream, placed.caller)

    def _end_call(self, head: dict[str, Any], pieces: list[bytes]) -> None:
        begun = self._open_calls.pop(head["id"])
        body, *chunks = pieces
        times = [float(time) for time in head["times"]]
        exchange = Exchange(
            str(head["id"]),
            begun.started_at,
            begun.method,
            begun.url,
            begun.headers,
            body,
            int(head["status"]),
            _headers(head["headers"]),
            tuple(Chunk(t_ms, data) for t_ms, data in zip(times, chunks, strict=True)),
            float(head["ms"]),
            CallOutcome(head["outcome"]),
            str(head["error"]),
            begun.caller,
        )
        self._reports.ended += 1
        self._reports.too_large += bool(head["too_large"])
        self._reports._engine.close_call(exchange)


def _discard_reply(_: bytes) -> None:
    """Nobody waits for an answer."""


def _read_caller(head: dict[str, Any]) -> tuple[Headers, Caller]:
    """The headers of a request, and who sends it."""
    headers, source = apply_call_site(_headers(head["headers"]), head["source"], lambda: str(head["fallback"]))
    scope = str(head["scope"])
    return headers, Caller(source, scope, scope)


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _response_frame(response: Answer) -> bytes:
    head = {
        "kind": "answer",
        "status": response.status,
        "headers": response.headers,
        "times": [t_ms for t_ms, _ in response.chunks],
        "cut": response.cut,
        "pace": response.pace,
    }
    return write_frame(head, [data for _, data in response.chunks])


def _headers(pairs: list[list[str]]) -> Headers:
    return tuple((str(name), str(value)) for name, value in pairs)
