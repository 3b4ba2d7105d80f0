"""The watcher of a process that `traceforge run` has started: hands each call to the parent process.

In: the settings in `TRACEFORGE_RUN`, as `bootstrap.py` reads them. Out: frames; in a replay, the parent's responses.
Never: imports a client, or reads a file of the application, but for the cassettes of an audit.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from . import cassette_events, child_processes, clients, dispatch, pytest_events
from .frame_sender import FrameSender
from .frames import write_frame
from .guarded_call import end_dropped_calls, faults, is_traceforge_header, stop_conversations
from .in_flight_call import CLIENT_LEFT, HeaderPairs, InFlightCall
from .patches import ImportHook, Patches
from .pytest_scopes import current_scope, current_worker
from .query_client import QueryClient
from .watcher import Watcher

FLUSH_S = 3.0  # How long the end of a process waits for a parent that takes nothing of its last calls.


class ChildWatcher(Watcher):
    """Reports every call of this process to the parent."""

    def __init__(self, sender: FrameSender, queries: QueryClient | None = None) -> None:
        self._sender = sender
        self._queries = queries  # None: nothing is replayed
        self.replays = queries is not None
        self._open_calls: dict[str, InFlightCall] = {}  # that the parent knows of
        self._notes: set[str] = set()
        self.call_sites: Any = None
        self.import_hook: ImportHook | None = None  # by which clients and recorders are hooked

    def begin_call(self, method: str, url: str, headers: HeaderPairs, source: str) -> InFlightCall:
        upstream = tuple([header for header in headers if not is_traceforge_header(header[0])])
        caller = {
            "source": source,
            "fallback": "" if source else self.call_sites.fallback(),
            "scope": current_scope(),
            "worker": current_worker(),
        }
        call = InFlightCall(
            self._end_call,
            method,
            url,
            upstream,
            call_id=_new_id(),
            client_headers=headers,
            caller=caller,
            on_abandon=self._forget_call,
        )
        if len(upstream) < len(headers):  # Only a client that uses our headers is sent any.
            call.extra_response_headers = (("X-TraceForge-Trace-ID", call.id),)
        if not self.replays:
            self._report_begin(call)
        return call

    def replay_call(self, call: InFlightCall, body: bytes) -> Any:
        """The parent's response.

        Raises:
            OSError, ValueError: the parent is gone, or its reply cannot be read.
        """
        assert self._queries is not None
        request = {
            "kind": "play",
            **_describe(call),
            "renew": call.prefers_upstream,
            "conversation": call.conversation,
        }
        head, chunks = self._queries.query(write_frame(request, [body]))
        if head["kind"] == "live":
            call.restart_clock()
            self._report_begin(call)
            return None
        headers = tuple((name, value) for name, value in head["headers"])
        timed_chunks = _timed_chunks(head["times"], chunks)
        return (
            head["status"], headers, timed_chunks, head["cut"], head["pace"], head["left_early"], head["hold_s"],
            head["times_out"],
        )  # fmt: skip

    def _report_begin(self, call: InFlightCall) -> None:
        """A call goes upstream: the parent numbers it in its session."""
        self._sender.send(write_frame({"kind": "begin", **_describe(call), "at": time.time()}))
        self._open_calls[call.id] = call  # Last: if the frame cannot be made, the parent does not know of the call.

    def _end_call(self, call: InFlightCall) -> None:
        if self._open_calls.pop(call.id, None) is None:
            return  # It began in the process that forked this one, and is reported there.
        head = {
            "kind": "end",
            "id": call.id,
            "status": call.status,
            "headers": call.response_headers,
            "times": [round(t_ms, 4) for t_ms, _ in call.response_chunks],
            "ms": round(call.duration_ms, 4),
            "outcome": call.outcome,
            "error": call.error,
            "too_large": call.is_too_large,
        }
        chunks = [data for _, data in call.response_chunks]
        self._sender.send(write_frame(head, [b"".join(call.request_chunks), *chunks]))

    def _forget_call(self, call: InFlightCall) -> None:
        """Report no end: the parent counts the call as unfinished, and the fault is reported at exit."""
        self._open_calls.pop(call.id, None)

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self._sender.send(write_frame({"kind": "refused", "why": reason, "deviation": is_deviation, "scope": scope}))

    def compare_answers(self, answers: tuple[bytes, bytes], reason: str, scope: str) -> None:
        self._sender.send(write_frame({"kind": "answers", "why": reason, "scope": scope}, answers))

    def report_test(self, scope: str, event: str) -> None:
        """A test began or ended. In a replay, the parent must know of it before the next call asks for a response."""
        self._report_event({"kind": "test", "scope": scope, "what": event, "worker": current_worker()})

    def report_suite(self, event: str) -> None:
        """A run of pytest began or ended in this process; at once, because the process may end without a goodbye."""
        self._report_event({"kind": "suite", "what": event})
        if self.import_hook is not None and event == "began":
            self.import_hook.restart()

    def _report_event(self, head: dict[str, Any]) -> None:
        if self._queries is None:
            self._sender.send(write_frame(head))
        else:
            self._queries.query(write_frame({**head, "asked": True}))

    def report_collection(self, tests: list[str], is_selection: bool, selected: list[str]) -> None:
        """The tests that this process has collected; `is_selection`: only the `selected` ones are to run."""
        head = {"kind": "collected", "tests": tests, "selection": is_selection, "selected": selected}
        self._sender.send(write_frame(head))

    def report_loaded(self, cassette: str, recorded: list[tuple[str, str]], digest: str) -> None:
        """A recorder of the application has read a cassette with these methods and URLs, and this digest."""
        self._send_cassette_event("loaded", cassette, {"recorded": recorded, "digest": digest})

    def report_played(
        self, cassette: str, index: int, recorded: tuple[dict[str, str], bytes], sent: tuple[dict[str, str], bytes]
    ) -> None:
        """A recorder has answered a request with the interaction `index` of a cassette."""
        fields = {"index": index, "recorded": recorded[0], "sent": sent[0]}
        self._send_cassette_event("played", cassette, fields, [recorded[1], sent[1]])

    def report_unanswered(self, cassette: str, method: str, url: str, outcome: str) -> None:
        """A call was not answered from a cassette, or not in a way that can be compared."""
        self._send_cassette_event("unanswered", cassette, {"method": method, "url": url, "what": outcome})

    def _send_cassette_event(
        self, kind: str, cassette: str, fields: dict[str, Any], bodies: Sequence[bytes] = ()
    ) -> None:
        head = {"kind": kind, "scope": current_scope(), "cassette": os.path.abspath(cassette), **fields}
        self._sender.send(write_frame(head, bodies))

    def count_library_answer(self, library: str) -> None:
        self._sender.send(write_frame({"kind": "answered", "scope": current_scope(), "library": library}))

    def note_unseen(self, description: str) -> None:
        """Reported once for each description."""
        if description not in self._notes:
            self._notes.add(description)
            self._sender.send(write_frame({"kind": "note", "what": description}))

    def add_fault(self, exc: BaseException) -> None:
        """The hook failed; the application does not notice."""
        faults.add(exc)

    def after_fork(self) -> None:
        """In a forked child: the calls of the parent stay the parent's."""
        self._open_calls = {}
        self._notes = set()
        self._sender.after_fork()
        if self._queries is not None:
            self._queries.close()

    def at_exit(self) -> None:
        """The process ends: report what is still open, and wait a little until the parent has taken it."""
        stop_conversations(self)
        end_dropped_calls()
        for call in list(self._open_calls.values()):
            call.end(CLIENT_LEFT, "the process ended before the response did")
        lost = self._sender.lost
        if lost or faults.count:
            self._sender.send(
                write_frame({"kind": "bye", "lost": lost, "faults": faults.count, "fault": faults.first})
            )
        self._sender.flush(FLUSH_S)
        self._sender.close()
        if self._queries is not None:
            self._queries.close()


def start_watching(address: str, token: str, variables: dict[str, tuple[str, str | None]], options_json: str) -> Any:
    """Watch this process from now on; returns the finder that hooks clients when they are imported."""
    options = json.loads(options_json)
    sender = FrameSender(address, token)
    watcher = ChildWatcher(sender, QueryClient(address, token) if options["plays"] else None)
    if options["observes"]:
        hooks = {**cassette_events.make_hooks(watcher), **pytest_events.make_hooks(watcher)}
        finder = ImportHook(hooks, Patches())
        finder.start()
    else:
        finder = _hook_clients(watcher, variables, options)
    watcher.import_hook = finder
    atexit.register(watcher.at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=watcher.after_fork)
    return finder


def _hook_clients(
    watcher: ChildWatcher, variables: dict[str, tuple[str, str | None]], options: dict[str, Any]
) -> ImportHook:
    subscription = dispatch.Subscription(
        watcher, root=options["root"], skip=options["skip"], hosts=options["hosts"], process_wide=True
    )
    watcher.call_sites = subscription.call_sites
    return clients.start(
        subscription, {**child_processes.make_hooks(variables, watcher), **pytest_events.make_hooks(watcher)}
    )


def _describe(call: InFlightCall) -> dict[str, Any]:
    """The fields of a frame that describe a request to the parent."""
    return {"id": call.id, "method": call.method, "url": call.url, "headers": call.client_headers, **call.caller}


def _timed_chunks(times: list[float], chunks: list[bytes]) -> list[tuple[float, bytes]]:
    if len(times) != len(chunks):
        raise ValueError("a response whose times and chunks differ in number")
    return list(zip(times, chunks))  # noqa: B905 (Python 3.9)


def _new_id() -> str:
    """A random UUID, without the module `uuid`, whose import takes 2.5 ms of CPU time in every process."""
    number = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
