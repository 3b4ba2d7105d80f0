"""`traceforge proxy` in a soak: one that lasts, and one that is killed, with its recorder, again and again."""

from __future__ import annotations

import http.client
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from os import kill
from pathlib import Path

from support.command import COMMAND
from support.soak.numbered_calls import PATH, answer_pieces, make_request
from support.soak.soak_part import SoakMachine, SoakPart
from support.soak.soak_process import SoakProcess
from support.soak.trace_ledger import RecordingLife, check_traces
from traceforge.traces.spool_drain import drain_spool

CLIENTS, PAUSE_SECONDS = 3, 0.15
CALL_SECONDS_MAX = 60
SETTLE_SECONDS_MAX = 120
RECORDER_END_SECONDS_MAX = 180
RESULT = re.compile(r'exchanges_total{result="(\w+)",[^}]*} (\d+)')
WAITING = re.compile(r"exchanges_waiting{[^}]*} (\d+)")
SUMMARY = re.compile(r"stopped: (\d+) calls?, (\d+) recorded, (\d+) lost, (\d+) recording failures")
STILL_RECORDED = re.compile(r"(\d+) still being recorded")


class _ProxyLife(RecordingLife):
    """A running proxy, and the calls that it has answered."""

    def __init__(self, project: Path, machine: SoakMachine) -> None:
        super().__init__()
        words = [str(COMMAND), "proxy", "--port", "0", "--json", "--upstream", f"openai={machine.provider}"]
        self.process = SoakProcess(words, project, machine.clock.variables)
        self.port = int(self.process.ready["url"].rpartition(":")[2])
        self.recorders = set(self.process.children())

    def results(self) -> dict[str, int]:
        """What the recorder says about the calls so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=CALL_SECONDS_MAX) as page:
            text = page.read().decode()
        waiting = WAITING.search(text)
        assert waiting, text
        return {"waiting": int(waiting[1]), **{name: int(count) for name, count in RESULT.findall(text)}}

    def settle(self) -> None:
        """Wait until the recorder has reported every call that is answered now."""
        answered = set(self.names())
        results = self.results()
        accepted = sum(results[name] for name in ("recorded", "lost", "failed", "waiting"))
        until = time.monotonic() + SETTLE_SECONDS_MAX
        while results["recorded"] + results["lost"] + results["failed"] < accepted:
            assert time.monotonic() < until, f"calls are never recorded: {results}"
            time.sleep(0.05)
            results = self.results()
        self.settled = answered
        self.not_recorded = results["lost"] + results["failed"]

    def note_end(self, log: str) -> int:
        """Compare the counts that a stopped proxy prints with each other; how many calls became traces."""
        match = SUMMARY.search(log)
        assert match, log
        calls, recorded, lost, failed = map(int, match.groups())
        late = STILL_RECORDED.search(log)
        stored = recorded + (int(late[1]) if late else 0)
        assert calls == stored + lost + failed, log
        assert len(self.names()) <= calls, log
        self.settled = set(self.names())
        self.not_recorded = lost + failed
        return stored


class SoakProxy(SoakPart):
    """Clients call through a proxy, as fast as the proxy lets them with a pause."""

    def __init__(self, name: str, machine: SoakMachine, *, is_killed: bool) -> None:
        super().__init__(name, machine)
        self._is_killed = is_killed
        self._project = machine.new_project(name)
        self._lives: list[_ProxyLife] = []
        self._unanswered: set[str] = set()
        self._start()
        self.start_load(self._call, CLIENTS, PAUSE_SECONDS)

    def _start(self) -> None:
        life = _ProxyLife(self._project, self.machine)
        self._lives.append(life)
        if not self._is_killed:
            self.lasting = {"proxy": life.process}

    def faults(self) -> list[Callable[[], str]]:
        return [self._kill_proxy, self._kill_recorder, self._restart_proxy] if self._is_killed else []

    def writers(self) -> list[int]:
        return self._lives[-1].process.children()

    def _kill_proxy(self) -> str:
        life = self._lives[-1]
        life.settle()
        time.sleep(self.random.random())
        life.recorders |= set(life.process.children())
        life.was_killed = True
        life.process.kill()
        self._start()
        return "killed the proxy"

    def _kill_recorder(self) -> str:
        for recorder in self._lives[-1].process.children():
            with suppress(ProcessLookupError):
                kill(recorder, signal.SIGKILL)
        return "killed the recorder"

    def _restart_proxy(self) -> str:
        life = self._lives[-1]
        life.recorders |= set(life.process.children())
        life.note_end(life.process.stop())
        self._start()
        return "restarted the proxy"

    def _call(self, client: str, number: int) -> None:
        """Make a call through the proxy of now; where that is killed meanwhile, the call may have a trace or not."""
        life = self._lives[-1]
        request = make_request(self.machine.seed, client, number)
        connection = http.client.HTTPConnection("127.0.0.1", life.port, timeout=CALL_SECONDS_MAX)
        try:
            connection.request("POST", f"/openai{PATH}", request, {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self._unanswered.add(f"{client}.{number}")
            if not self._is_killed:
                raise
            time.sleep(0.2)
            return
        finally:
            connection.close()
        assert (200, b"".join(answer_pieces(request))) == (response.status, body), f"{client}.{number}"
        life.note_answer(client, number)

    def finish(self) -> str:
        life = self._lives[-1]
        life.recorders |= set(life.process.children())
        stored = life.note_end(life.process.stop())
        self._wait_for_recorders()
        drain_spool(str(self._project / ".ai-tests" / "traces"))
        totals = check_traces(self._project, self.machine.seed, list(self._lives), self._unanswered)
        if not self._is_killed:
            assert (stored, 0) == (totals.stored, totals.in_memory), "recorded and stored differ"
            assert self.machine.disk.was_full or totals.not_recorded == 0
        return f"{self.name}: {totals}"

    def _wait_for_recorders(self) -> None:
        """A recorder outlives its proxy until everything that it was sent is written."""
        until = time.monotonic() + RECORDER_END_SECONDS_MAX
        recorders = {pid for life in self._lives for pid in life.recorders}
        while recorders := {pid for pid in recorders if _is_recorder(pid)}:
            assert time.monotonic() < until, f"a recorder never ends: {recorders}"
            time.sleep(0.1)

    def discard(self) -> None:
        for life in self._lives:
            life.process.discard()


def _is_recorder(pid: int) -> bool:
    """Whether this process still is a recorder: a number can be given again."""
    try:
        return b"traceforge.capture.recorder_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
