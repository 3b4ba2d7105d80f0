"""What child processes report, turned into exchanges.

In: frames of any number of connections, each in its own order. Out: exchanges in the sink, numbered in their
sessions, and counts for the summary; in a replay, responses. Never: trusts a frame: one that cannot be read is
counted and left out, and a request in it is refused.
"""

from __future__ import annotations

import hmac
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from traceforge.capture.engine import Engine
from traceforge.capture.hook.callsite import parse_test
from traceforge.capture.hook.frames import write_frame
from traceforge.capture.hook.in_flight_call import NO_CONVERSATION, Conversation, InFlightCall
from traceforge.capture.hook.pytest_events import BEGAN
from traceforge.capture.hook.replayed_response import ReplayedResponse, make_refusal
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.cassette_observer import CASSETTE_EVENTS, CassetteObserver
from traceforge.capture.run.network_access import RefusedConnection
from traceforge.capture.run.process_files import describe_program
from traceforge.capture.run.suite_events import SuiteEvents
from traceforge.capture.traceforge_headers import apply_call_site
from traceforge.clock import timestamp_text
from traceforge.exchange import Caller, CallOutcome, Headers

Reply = Callable[[bytes], object]

NAME_LENGTH_MAX = 300  # of a host or a program that a process reports


class ProcessReports:
    """Everything that was reported so far. Safe to use from several threads."""

    def __init__(
        self,
        engine: Engine,
        token: str,
        replay: ReplayResponder | None = None,
        cassettes: CassetteObserver | None = None,
    ) -> None:
        self._engine = engine
        self._cassettes = cassettes
        self._token = token
        self._replay = replay
        self._lock = threading.Lock()
        self.processes: set[int] = set()  # that were instrumented
        self.hosts: Counter[str] = Counter()  # of calls that began
        self.unseen: Counter[str] = Counter()  # traffic that could not be watched
        self.faults: Counter[str] = Counter()  # failures of the hook in a process
        self.ended = 0
        self.unfinished = 0  # calls whose process ended without reporting their end
        self.lost = 0  # calls that a process could not report
        self.malformed = 0  # frames that could not be read
        self.too_large = 0
        self.replayed = 0  # calls that were answered from recordings, or refused because they were not recorded
        self.refused_connections: Counter[RefusedConnection] = Counter()
        self.started_programs: Counter[tuple[str, bool]] = (
            Counter()
        )  # by program, and whether it is a Python that cannot be instrumented
        self.stack_starts: set[str] = set()  # of the processes: see `bootstrap.stack_start`
        self.suite = SuiteEvents()
        self.open_suites = 0  # runs of pytest that began and did not end
        self.current_tests: dict[int, str] = {}  # by process: the test that it began last


class ProcessConnection:
    """The reports of one connection; `reply` sends a frame back."""

    def __init__(self, reports: ProcessReports, reply: Reply | None = None) -> None:
        self._reports = reports
        self._reply = reply or _discard_reply
        self._open_calls: dict[str, InFlightCall] = {}
        self._is_authenticated = False
        self._pid = 0

    def handle_frame(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        """One frame. False: the process is not one of this run, and the connection is to be closed."""
        reports = self._reports
        if head.get("kind") == "play" and self._is_authenticated:
            self._reply(self._replay(head, pieces))  # without the lock: the player has its own
            return True
        with reports._lock:
            try:
                return self._dispatch_frame(head, pieces)
            except (KeyError, TypeError, ValueError, OverflowError):
                reports.malformed += 1
                return self._is_authenticated

    def close(self) -> None:
        """Count the calls that the process has not finished."""
        with self._reports._lock:
            self._reports.unfinished += len(self._open_calls)
            self._open_calls.clear()

    def _dispatch_frame(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        kind = head["kind"]
        if not self._is_authenticated:
            self._is_authenticated = kind == "hello" and hmac.compare_digest(str(head["token"]), self._reports._token)
            if self._is_authenticated:
                self._pid = int(head["pid"])
                self._reports.processes.add(self._pid)
                self._reports.stack_starts.add(str(head.get("start", "")))
            return self._is_authenticated
        if kind == "begin":
            self._begin_call(head)
        elif kind == "end":
            self._end_call(head, pieces)
        elif kind == "note":
            self._reports.unseen[str(head["what"])] += 1
        elif kind == "shut":
            self._reports.refused_connections[self._read_refusal(head)] += 1
        elif kind == "started":
            self._reports.started_programs[str(head["name"])[:NAME_LENGTH_MAX], bool(head["lost"])] += 1
        elif kind == "test":
            self._record_test_event(str(head["scope"]), str(head["what"]), str(head.get("worker", "")))
            if head.get("asked"):
                self._reply(write_frame({"kind": "heard"}))
        elif kind == "suite":
            self._reports.open_suites += 1 if head["what"] == "began" else -1
            if head.get("asked"):
                self._reply(write_frame({"kind": "heard"}))
        elif kind == "collected":
            tests, selected = ([str(test) for test in head[name]] for name in ("tests", "selected"))
            self._reports.suite.add_collection(tests, bool(head["selection"]), selected)
        elif kind == "refused":
            if self._reports._replay is not None:
                reason, scope = str(head["why"]), str(head.get("scope", ""))
                self._reports._replay.count_refusal(reason, head.get("deviation") is True, scope)
        elif kind == "answers":
            if self._reports._replay is not None:
                recorded, now = pieces
                self._reports._replay.compare_answers((recorded, now), str(head["why"]), str(head["scope"]))
        elif kind == "answered":
            self._reports.suite.library_answers[str(head["library"]), str(head["scope"])] += 1
        elif kind in CASSETTE_EVENTS:
            if self._reports._cassettes is not None:
                CASSETTE_EVENTS[kind](self._reports._cassettes, head, pieces)
        elif kind == "bye":
            self._reports.lost += abs(int(head["lost"]))  # A process cannot take back what others reported.
            if head["faults"]:
                self._reports.faults[str(head["fault"])] += abs(int(head["faults"]))
        else:
            raise ValueError(kind)
        return True

    def _replay(self, head: dict[str, Any], pieces: list[bytes]) -> bytes:
        """The response to a whole request, as a frame; also where the request cannot be read."""
        replay = self._reports._replay
        try:
            if replay is None:
                raise ValueError("this run does not replay")
            (body,) = pieces
            headers, caller = _read_caller(head)
            url = str(head["url"])
            name, is_open, start = head.get("conversation", NO_CONVERSATION)
            response = replay.respond(
                str(head["method"]), url, headers, body, caller,
                prefers_upstream=bool(head.get("renew")),
                conversation=Conversation(str(name), is_open is True, int(start)),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as exc:
            reason = f"a request could not be read ({type(exc).__name__})"
            if replay is not None:
                replay.count_refusal(reason)
            return _response_frame(make_refusal(reason))
        if response is None:
            return write_frame({"kind": "live"})
        if is_open is True:
            return _response_frame(response)
        with self._reports._lock:
            self._reports.replayed += 1
            self._reports.hosts[_host(url)] += 1
        return _response_frame(response)

    def _record_test_event(self, scope: str, event: str, worker: str) -> None:
        """Record that a test began, perhaps again, or that a phase of it ended; or that another scope was opened."""
        self._reports.suite.add_event(scope, event, worker)
        if event == BEGAN:
            self._reports.current_tests[self._pid] = scope
        if event == BEGAN and self._reports._replay is not None:
            self._reports._replay.restart_scope(scope, worker)

    def _read_refusal(self, head: dict[str, Any]) -> RefusedConnection:
        scope = parse_test(str(head.get("test", "")))[:NAME_LENGTH_MAX]
        return RefusedConnection(
            str(head["place"])[:NAME_LENGTH_MAX], str(head["why"]), scope, describe_program(self._pid)
        )

    def _begin_call(self, head: dict[str, Any]) -> None:
        headers, caller = _read_caller(head)
        url = str(head["url"])
        started_at = timestamp_text(datetime.fromtimestamp(float(head["at"]), UTC))
        call = self._reports._engine.begin(
            str(head["method"]), url, headers, caller, call_id=str(head["id"]), started_at=started_at
        )
        self._reports.hosts[_host(url)] += 1
        if worker := str(head.get("worker", "")):
            self._reports.suite.call_workers[call.id] = worker
        self._open_calls[call.id] = call

    def _end_call(self, head: dict[str, Any], pieces: list[bytes]) -> None:
        call = self._open_calls.pop(str(head["id"]))
        body, *chunks = pieces
        times = [float(time) for time in head["times"]]
        call.add_request_chunk(body)
        call.start_response(int(head["status"]), _read_headers(head["headers"]))
        call.response_chunks.extend(zip(times, chunks, strict=True))
        duration_ms, outcome, error = float(head["ms"]), CallOutcome(head["outcome"]), str(head["error"])
        self._reports.ended += 1
        self._reports.too_large += bool(head["too_large"])
        call.end_with_duration(duration_ms, outcome, error)


def _discard_reply(_: bytes) -> None:
    """A connection on which nothing is replied."""


def _read_caller(head: dict[str, Any]) -> tuple[Headers, Caller]:
    """The headers of a request, and its caller."""
    headers, source = apply_call_site(_read_headers(head["headers"]), head["source"], lambda: str(head["fallback"]))
    scope = str(head["scope"])
    return headers, Caller(source, scope, scope, worker=str(head.get("worker", "")))


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _response_frame(response: ReplayedResponse) -> bytes:
    head = {
        "kind": "answer",
        "status": response.status,
        "headers": response.headers,
        "times": [t_ms for t_ms, _ in response.chunks],
        "cut": response.is_cut,
        "pace": response.pace,
        "left_early": response.is_left_early,
        "hold_s": response.hold_s,
        "times_out": response.times_out,
    }
    return write_frame(head, [data for _, data in response.chunks])


def _read_headers(pairs: list[list[str]]) -> Headers:
    return tuple((str(name), str(value)) for name, value in pairs)
