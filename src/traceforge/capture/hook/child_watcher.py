"""Inside a process that `traceforge run` has entered: watch its calls, and hand each to the process that runs it.

In: what the parent said in `TRACEFORGE_RUN`, as `bootstrap.py` read it. Out: frames; in a replay, the parent's
answers. Never: imports a client, or reads a file of the application.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from typing import Any

from . import child_processes, clients, dispatch, pytest_events
from .callsite import current_test
from .frame_sender import Sender
from .frames import write_frame
from .guarded_call import LEFT, Pairs, faults, is_ours, sweep
from .query_client import Asker

BODY_BYTES_MAX = 64 << 20  # As the engine has it: a body beyond this is not kept.
FLUSH_S = 3.0  # How long the end of a process may wait for its last calls to be taken.


class ChildCall:
    """One call in flight: what the engine's call is in its own process."""

    __slots__ = (
        "_asked", "_began", "_chunks", "_error", "_headers", "_pid", "_request", "_request_bytes",
        "_response_bytes", "_status", "_times", "_watcher", "headers", "id", "plays", "reply_headers",
    )  # fmt: skip

    def __init__(self, watcher: ChildWatcher, call_id: str, headers: Pairs, asked: dict[str, Any]) -> None:
        self._watcher = watcher
        self.id = call_id
        self._asked = asked  # what the parent is told about the request
        self.plays = watcher.plays
        self._pid = os.getpid()
        ours = any(is_ours(name) for name, _ in headers)
        self.headers: Pairs = tuple(pair for pair in headers if not is_ours(pair[0])) if ours else headers
        self.reply_headers: Pairs = (("X-TraceForge-Trace-ID", call_id),) if ours else ()
        self._request: list[bytes] = []
        self._request_bytes = 0
        self._status = 0
        self._headers: Pairs = ()
        self._chunks: list[bytes] = []
        self._times: list[float] = []
        self._response_bytes = 0
        self._error = ""
        self._began = time.perf_counter()

    def play(self, body: bytes) -> Any:
        """What the parent answers; None: the call goes on, and is told."""
        head, chunks = self._watcher.ask({**self._asked, "kind": "play"}, body)
        if head["kind"] == "live":
            self._began = time.perf_counter()
            self._watcher.begun(self.id, self, self._asked)
            return None
        headers = tuple((name, value) for name, value in head["headers"])
        return head["status"], headers, _timed(head["times"], chunks), head["cut"], head["pace"]

    def refused(self, why: str) -> None:
        """It could not be asked about."""
        self._watcher.refused(why)

    def sent(self, data: bytes) -> None:
        """A piece of the request's body."""
        self._request_bytes += len(data)
        if self._request_bytes <= BODY_BYTES_MAX:
            self._request.append(data)
        else:
            self._request.clear()

    def answered(self, status: int, headers: Pairs) -> None:
        """The response begins."""
        self._status = status
        self._headers = headers

    def came(self, data: bytes) -> None:
        """A piece of the response's body."""
        self._response_bytes += len(data)
        if self._response_bytes <= BODY_BYTES_MAX:
            self._times.append(round((time.perf_counter() - self._began) * 1000, 4))
            self._chunks.append(data)
        else:
            self._times.clear()
            self._chunks.clear()

    def ended(self, outcome: str, error: str = "") -> None:
        """The call is over: it goes to the parent. A copy of it in a forked child is not its business."""
        if self._pid != os.getpid():
            return
        too_large = self._request_bytes > BODY_BYTES_MAX or self._response_bytes > BODY_BYTES_MAX
        head = {
            "kind": "end",
            "id": self.id,
            "status": self._status,
            "headers": self._headers,
            "times": self._times,
            "ms": round((time.perf_counter() - self._began) * 1000, 4),
            "outcome": outcome,
            "error": error or (f"a body of more than {BODY_BYTES_MAX} bytes is not kept" if too_large else ""),
            "too_large": too_large,
        }
        self._watcher.finish(self.id, write_frame(head, [b"".join(self._request), *self._chunks]))


class ChildWatcher:
    """Tells the parent of every call of this process."""

    def __init__(self, sender: Sender, asker: Asker | None = None) -> None:
        self._sender = sender
        self._asker = asker  # None: nothing is replayed
        self.plays = asker is not None
        self._open: dict[str, ChildCall] = {}
        self._notes: set[str] = set()
        self.sites: Any = None

    def begin(self, method: str, url: str, headers: Pairs, source: str) -> ChildCall:
        """A call begins: the parent gives it its place in its session."""
        call_id = _new_id()
        asked = {
            "kind": "begin",
            "id": call_id,
            "method": method,
            "url": url,
            "headers": headers,
            "source": source,
            "fallback": "" if source else self.sites.fallback(),
            "scope": current_test(),
        }
        call = ChildCall(self, call_id, headers, asked)
        if not self.plays:
            self.begun(call_id, call, asked)
        return call

    def begun(self, call_id: str, call: ChildCall, asked: dict[str, Any]) -> None:
        """A call is on its way to its upstream."""
        self._open[call_id] = call
        self._sender.send(write_frame({**asked, "at": time.time()}))

    def ask(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """What the parent answers.

        Raises:
            OSError, ValueError: nothing, or nothing that could be understood.
        """
        assert self._asker is not None
        return self._asker.ask(write_frame(head, [body]))

    def refused(self, why: str) -> None:
        """A call that was not replayed, and of which the parent knows nothing."""
        self._sender.send(write_frame({"kind": "refused", "why": why}))

    def finish(self, call_id: str, frame: bytes) -> None:
        """A call has ended."""
        self._open.pop(call_id, None)
        self._sender.send(frame)

    def tell_test(self, scope: str, what: str) -> None:
        """A test began, or has ended. In a replay, the parent must have heard it before the next call asks."""
        head: dict[str, Any] = {"kind": "test", "scope": scope, "what": what}
        if self._asker is None:
            self._sender.send(write_frame(head))
        else:
            self._asker.ask(write_frame({**head, "asked": True}))

    def note(self, what: str) -> None:
        """Something that cannot be seen into, said once."""
        if what not in self._notes:
            self._notes.add(what)
            self._sender.send(write_frame({"kind": "note", "what": what}))

    def fault(self, exc: BaseException) -> None:
        """Something of ours failed."""
        faults.add(exc)

    def after_fork(self) -> None:
        """A child that was forked: its parent's calls are its parent's."""
        self._open = {}
        self._notes = set()
        self._sender.after_fork()
        if self._asker is not None:
            self._asker.close()

    def at_exit(self) -> None:
        """The process ends: say what is still open, and wait a little for the parent to take it."""
        sweep()
        for call in list(self._open.values()):
            call.ended(LEFT, "the process ended before the response did")
        lost = self._sender.lost
        if lost or faults.count:
            self._sender.send(
                write_frame({"kind": "bye", "lost": lost, "faults": faults.count, "fault": faults.first})
            )
        self._sender.flush(FLUSH_S)
        self._sender.close()
        if self._asker is not None:
            self._asker.close()


def enter(address: str, token: str, variables: dict[str, tuple[str, str | None]], text: str) -> Any:
    """Watch this process from now on; what is returned waits for the clients to be imported."""
    options = json.loads(text)
    sender = Sender(address, token)
    watcher = ChildWatcher(sender, Asker(address, token) if options["plays"] else None)
    watch = dispatch.Watch(
        watcher, root=options["root"], skip=options["skip"], hosts=options["hosts"], everywhere=True
    )
    watcher.sites = watch.sites
    importing = clients.start(watch, {**child_processes.hooks(variables, watcher), **pytest_events.hooks(watcher)})
    atexit.register(watcher.at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=watcher.after_fork)
    return importing


def _timed(times: list[float], chunks: list[bytes]) -> list[tuple[float, bytes]]:
    if len(times) != len(chunks):
        raise ValueError("an answer whose pieces do not fit")
    return list(zip(times, chunks))  # noqa: B905 (Python 3.9)


def _new_id() -> str:
    """A random UUID; without its module, which costs a process more to import than all calls it makes."""
    number = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
