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

PLACE_LENGTH_MAX = 300  # of a host that a process wanted to connect to
_OUTCOMES = ("passed", "skipped", "failed")  # of a test, the worst last


class Arrivals:
    """Everything that was said so far. Safe to use from several threads."""

    def __init__(self, engine: Engine, token: str, replay: Replay | None = None) -> None:
        self._engine = engine
        self._token = token
        self._replay = replay
        self._lock = threading.Lock()
        self.processes: set[int] = set()  # that were entered
        self.hosts: Counter[str] = Counter()  # of calls that began
        self.notes: Counter[str] = Counter()  # what could not be seen into
        self.faults: Counter[str] = Counter()  # what failed in a process that was entered
        self.ended = 0
        self.unfinished = 0  # calls whose process went away without a word
        self.lost = 0  # calls that a process could not hand over
        self.malformed = 0  # frames that were none
        self.too_large = 0
        self.played = 0  # calls that were answered from recordings, or refused because there is none
        self.shut: Counter[tuple[str, str]] = Counter()  # connections that were refused: the place, and why
        self.started: Counter[tuple[str, bool]] = Counter()  # programs; is it a Python that is lost to us?
        self.starts: set[str] = set()  # of the processes, as `bootstrap.started_as` has it
        self.tests: dict[str, str] = {}  # by node id: how each ended


class Conversation:
    """What one process says; `reply` sends it an answer."""

    def __init__(self, arrivals: Arrivals, reply: Reply | None = None) -> None:
        self._all = arrivals
        self._reply = reply or _nobody
        self._begun: dict[str, Begun] = {}
        self._known = False

    def hear(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        """One frame. False: it is not one of ours, and nothing more is to be heard."""
        everything = self._all
        if head.get("kind") == "play" and self._known:
            self._reply(self._play(head, pieces))  # without the lock: a player has its own
            return True
        with everything._lock:
            try:
                return self._hear(head, pieces)
            except (KeyError, TypeError, ValueError, OverflowError):
                everything.malformed += 1
                return self._known

    def close(self) -> None:
        """The connection is over."""
        with self._all._lock:
            self._all.unfinished += len(self._begun)
            self._begun.clear()

    def _hear(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        kind = head["kind"]
        if not self._known:
            self._known = kind == "hello" and hmac.compare_digest(str(head["token"]), self._all._token)
            if self._known:
                self._all.processes.add(int(head["pid"]))
                self._all.starts.add(str(head.get("start", "")))
            return self._known
        if kind == "begin":
            self._begin(head)
        elif kind == "end":
            self._end(head, pieces)
        elif kind == "note":
            self._all.notes[str(head["what"])] += 1
        elif kind == "shut":
            self._all.shut[str(head["place"])[:PLACE_LENGTH_MAX], str(head["why"])] += 1
        elif kind == "started":
            self._all.started[str(head["name"])[:PLACE_LENGTH_MAX], bool(head["lost"])] += 1
        elif kind == "test":
            self._test(str(head["scope"]), str(head["what"]))
            if head.get("asked"):
                self._reply(write_frame({"kind": "heard"}))
        elif kind == "refused":
            if self._all._replay is not None:
                self._all._replay.refused(str(head["why"]))
        elif kind == "bye":
            self._all.lost += int(head["lost"])
            if head["faults"]:
                self._all.faults[str(head["fault"])] += int(head["faults"])
        else:
            raise ValueError(kind)
        return True

    def _play(self, head: dict[str, Any], pieces: list[bytes]) -> bytes:
        """The answer to a whole request, as a frame. Whatever is wrong with it, it gets one."""
        replay = self._all._replay
        try:
            if replay is None:
                raise ValueError("this run replays nothing")
            (body,) = pieces
            headers, caller = _who(head)
            url = str(head["url"])
            answer = replay.answer(str(head["method"]), url, headers, body, caller)
        except (KeyError, TypeError, ValueError) as exc:
            why = f"a request could not be understood ({type(exc).__name__})"
            if replay is not None:
                replay.refused(why)
            return _answer_frame(refusal(why))
        if answer is None:
            return write_frame({"kind": "live"})
        with self._all._lock:
            self._all.played += 1
            self._all.hosts[_host(url)] += 1
        return _answer_frame(answer)

    def _test(self, scope: str, what: str) -> None:
        """A test began, maybe once more, or one of its phases ended; the worst of them counts."""
        tests = self._all.tests
        if what == "began":
            tests.pop(scope, None)
            if self._all._replay is not None:
                self._all._replay.player.restart_scope(scope)
        elif _OUTCOMES.index(what) >= _OUTCOMES.index(tests.get(scope, "passed")):
            tests[scope] = what

    def _begin(self, head: dict[str, Any]) -> None:
        headers, caller = _who(head)
        placed = self._all._engine.place(headers, caller)
        url = str(head["url"])
        self._all.hosts[_host(url)] += 1
        started_at = timestamp_text(datetime.fromtimestamp(float(head["at"]), UTC))
        self._begun[head["id"]] = Begun(started_at, str(head["method"]), url, placed.upstream, placed.caller)

    def _end(self, head: dict[str, Any], pieces: list[bytes]) -> None:
        begun = self._begun.pop(head["id"])
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
        self._all.ended += 1
        self._all.too_large += bool(head["too_large"])
        self._all._engine.close_call(exchange)


def _nobody(_: bytes) -> None:
    """Nobody waits for an answer."""


def _who(head: dict[str, Any]) -> tuple[Headers, Caller]:
    """The headers of a request, and who sends it."""
    headers, source = apply_call_site(_headers(head["headers"]), head["source"], lambda: str(head["fallback"]))
    scope = str(head["scope"])
    return headers, Caller(source, scope, scope)


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _answer_frame(answer: Answer) -> bytes:
    head = {
        "kind": "answer",
        "status": answer.status,
        "headers": answer.headers,
        "times": [t_ms for t_ms, _ in answer.chunks],
        "cut": answer.cut,
        "pace": answer.pace,
    }
    return write_frame(head, [data for _, data in answer.chunks])


def _headers(pairs: list[list[str]]) -> Headers:
    return tuple((str(name), str(value)) for name, value in pairs)
