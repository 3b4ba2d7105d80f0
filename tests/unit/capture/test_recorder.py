"""Recorders turn exchanges into traces without making the call wait."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.recorded_exchanges import exchange, ids, wait_for
from support.work_counts import run_with_deadline
from traceforge.capture import recorder as module
from traceforge.capture import recorder_forks, recorder_process
from traceforge.capture.recorder import ProcessRecorder, Recorder, ThreadRecorder
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.capture.trace_writer import TIME_IS_UP, RecorderSettings, TraceWriter
from traceforge.config import load_config
from traceforge.exchange import Exchange
from traceforge.traces.spool_drain import DrainResult, drain_spool

RECORDERS: list[Callable[[RecorderSettings], Recorder]] = [ThreadRecorder, ProcessRecorder]


@pytest.mark.parametrize("make", RECORDERS)
def test_everything_taken_is_a_file_after_close(make: Callable[[RecorderSettings], Recorder], tmp_path: Path) -> None:
    """Once, redacted, and the spool is empty."""
    folder = tmp_path / "traces"
    recorder = make(RecorderSettings(str(folder)))
    for number in range(50):
        recorder.take(exchange(number))
    counts = recorder.close(20)

    assert (50, 0, 50, {}) == (counts.accepted, counts.lost, counts.recorded, counts.failed)
    assert [exchange(number).id for number in range(50)] == ids(folder)
    assert [] == os.listdir(folder / "spool")
    assert not any(b"Ab1Ab1" in file.read_bytes() for file in folder.glob("*.json"))
    assert counts == recorder.close(), "closing twice changes nothing"


@pytest.mark.parametrize("make", RECORDERS)
def test_a_full_backlog_loses_and_counts(
    make: Callable[[RecorderSettings], Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`take` never waits: what does not fit is lost, and counted."""
    monkeypatch.setattr(module, "BACKLOG_BYTES_MAX", 10)
    recorder = make(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange())
    counts = recorder.close(20)

    assert (1, 1, 0) == (counts.accepted, counts.lost, counts.recorded)


@pytest.mark.parametrize("make", RECORDERS)
def test_a_folder_that_cannot_be_written_is_counted_with_the_reason(
    make: Callable[[RecorderSettings], Recorder], tmp_path: Path
) -> None:
    """The application goes on; the counts have the reason."""
    (tmp_path / "traces").write_text("a file stands in the way")
    recorder = make(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange(1))
    recorder.take(exchange(2))
    counts = recorder.close(20)

    assert (2, 0, 0) == (counts.accepted, counts.lost, counts.recorded)
    assert 2 == max(counts.failed.values())
    assert any("TF202" in reason for reason in counts.failed)


@pytest.mark.slow
def test_closing_does_not_wait_for_a_process_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns in time; what was not sent is lost, the rest is waiting, and nothing is counted twice."""
    monkeypatch.setattr(module, "BATCH_BYTES_MAX", 100 << 10)
    recorder = ProcessRecorder(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange(0))
    wait_for(lambda: recorder.counts.recorded == 1)
    os.kill(recorder._process.pid, signal.SIGSTOP)
    try:
        for number in range(1, 300):
            recorder.take(exchange(number, "long " * 1000))
        counts = run_with_deadline(lambda: recorder.close(0.5))
    finally:
        os.kill(recorder._process.pid, signal.SIGCONT)
        recorder._reader.join(20)
        recorder._socket.close()

    assert 0 < counts.lost
    assert 0 < counts.waiting
    assert 300 == counts.accepted == counts.recorded + counts.lost + counts.waiting
    assert {module.STILL_AT_WORK: 1} == counts.troubles


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells which signals a thread blocks")
def test_the_thread_takes_no_signal_that_another_thread_waits_for(tmp_path: Path) -> None:
    """`traceforge run` waits for the end of its command, and for signals to pass on. Faults are still reported."""
    recorder = ThreadRecorder(RecorderSettings(str(tmp_path)))
    status = Path(f"/proc/self/task/{recorder._thread.native_id}/status").read_text()
    recorder.close()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)

    assert {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM} == {
        number
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGSEGV)
        if blocked >> (number - 1) & 1
    }
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
def test_a_handler_that_raises_while_the_thread_starts_leaves_no_signal_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python runs handlers after each change of the mask; the application must still end on SIGTERM."""
    change_mask = signal.pthread_sigmask

    def raise_after(how: int, mask: Iterable[int]) -> set[Any]:
        before = change_mask(how, mask)
        if list(mask):
            monkeypatch.undo()
            raise TimeoutError
        return before

    monkeypatch.setattr(signal, "pthread_sigmask", raise_after)
    with pytest.raises(TimeoutError):
        ThreadRecorder(RecorderSettings(str(tmp_path)))

    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_thread_that_is_too_slow_is_abandoned_and_its_backlog_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backlog ends with the process: it is counted as lost, and the rest is files."""
    monkeypatch.setattr(module, "WRITE_SECONDS_MAX", 0.3)
    monkeypatch.setattr(module, "BATCH_BYTES_MAX", 1)
    folder = tmp_path / "traces"
    recorder = ThreadRecorder(RecorderSettings(str(folder)))
    write, has_written = recorder._writer.write, threading.Event()

    def write_slowly(call: Exchange) -> None:
        time.sleep(0.02)  # two hundred calls take four seconds at least
        write(call)
        has_written.set()

    monkeypatch.setattr(recorder._writer, "write", write_slowly)
    for number in range(200):
        recorder.take(exchange(number))
    has_written.wait()
    counts = recorder.close(0.2)

    assert 0 < counts.recorded == len(ids(folder))
    assert 0 < counts.lost
    assert (200, 0) == (counts.recorded + counts.lost, counts.waiting)


def test_traces_without_time_to_become_files_are_reported(tmp_path: Path) -> None:
    """They are not lost: the next command makes the files."""
    recorder = ThreadRecorder(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange(1))
    counts = recorder.close(0)

    assert (1, {TIME_IS_UP: 1}) == (counts.recorded, counts.troubles)
    assert 1 == drain_spool(str(tmp_path / "traces")).traces


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("dies", [False, True])
def test_a_writer_fork_at_the_end_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool) -> None:
    """It writes half of what is left; what it had not written when it died is lost, and everything is counted."""
    monkeypatch.setattr(recorder_process, "FORK_FRAMES_MIN", 2)
    monkeypatch.setattr(recorder_forks, "REPORT_EVERY", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    folder = tmp_path / "traces"
    writer, owner = TraceWriter(RecorderSettings(str(folder))), os.getpid()
    write = writer.write

    def write_or_die(exchange: Exchange | bytes) -> None:
        if dies and os.getpid() != owner and writer.written == 7:
            os._exit(1)
        write(exchange)

    monkeypatch.setattr(writer, "write", write_or_die)
    reports = receive(writer, 40)

    assert (27 if dies else 40) == reports[-1].recorded == len(ids(folder))
    assert (40, 0) == (reports[-1].recorded + reports[-1].lost, reports[-1].in_spool)
    assert [] == os.listdir(folder / "spool")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("dies", [False, True])
def test_a_drainer_fork_makes_files_when_the_recorder_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """It ends with the recorder; where it dies, files are made at the end."""
    monkeypatch.setattr(recorder_process, "BEHIND_BYTES", 0)
    monkeypatch.setattr(recorder_process, "BATCH_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    folder = tmp_path / "traces"
    writer, owner, makers = TraceWriter(RecorderSettings(str(folder))), os.getpid(), tmp_path / "makers"
    make = writer.drain_spool

    def make_or_die(seconds: float) -> DrainResult:
        with makers.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if dies and os.getpid() != owner:
            os._exit(1)
        return make(seconds)

    monkeypatch.setattr(writer, "drain_spool", make_or_die)
    monkeypatch.setattr(writer, "has_due_segment", lambda: writer.written > 0)
    reports = receive(writer, 5, wait=makers.exists)

    assert (5, 0) == (reports[-1].recorded, reports[-1].lost)
    assert 5 == len(ids(folder))
    assert [] == os.listdir(folder / "spool")
    (fork,) = {int(line) for line in makers.read_text().split()} - {owner}
    with pytest.raises(ProcessLookupError):
        os.kill(fork, 0)
    assert 0 == reports[-1].in_spool


def test_the_recorder_rests_in_a_burst_and_not_when_it_is_behind_for_long(tmp_path: Path) -> None:
    """A proxy that is busy for a moment gets the cores; what waits for seconds is written."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = recorder_process._RecorderProcess(theirs, TraceWriter(RecorderSettings(str(tmp_path / "traces"))))
        rests = []
        for waiting, now in (
            (0, 1.0),
            (1, 2.0),
            (1, 4.9),
            (1, 5.1),
            (0, 6.0),
            (1, 7.0),
            (recorder_process.BURST_BACKLOG_BYTES_MAX, 8.0),
        ):
            process._frames.backlog.bytes = waiting
            rests.append(process._is_burst(now))

    assert [False, True, True, False, False, True, False] == rests


def test_a_full_recorder_leaves_calls_with_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no call that it has no room for: the sender counts those as lost, and need not encode them first."""
    for name, size in {
        "BACKLOG_BYTES_MAX": 3000, "SENDING_BYTES_MAX": 1000, "ROOM_BYTES_MIN": 1000, "READ_BYTES": 500,
    }.items():  # fmt: skip
        monkeypatch.setattr(recorder_process, name, size)
    ours, theirs = socket.socketpair()
    received: list[bytes] = []
    with ours, theirs:
        for _ in range(100):
            module.send_frame(ours, b"x" * 200)
        reader = recorder_process._FrameReader(theirs)

        def take_some() -> bool:
            time.sleep(0.001)
            received.extend(reader.backlog.get(0.0, 500))
            return len(received) + reader.backlog.lost == 100

        wait_for(take_some)

    assert (100, 0) == (len(received), reader.backlog.lost)


def receive(writer: TraceWriter, number: int, wait: Callable[[], bool] = lambda: True) -> list[RecordingCounts]:
    """Run the recorder process here; the counts that it reports."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for place in range(number):
            data = bytearray()
            exchange(place).write_to(data)
            module.send_frame(ours, bytes(data))
        process = recorder_process._RecorderProcess(theirs, writer)
        last = threading.Thread(target=lambda: (wait_for(wait), ours.sendall(module.END_FRAME.pack(0, 20.0))))
        last.start()
        if wait():
            wait_for(lambda: bool(process._frames.deadline))
        process.run()
        last.join()
        theirs.shutdown(socket.SHUT_WR)
        return [
            msgspec.msgpack.decode(data, type=RecordingCounts)
            for data in iter(lambda: module.receive_frame(ours), None)
        ]


def test_traces_that_cannot_become_files_are_not_lost(tmp_path: Path) -> None:
    """They stay in the spool: the reason is reported, and no call is counted as failed."""
    folder = tmp_path / "traces"
    recorder = ThreadRecorder(RecorderSettings(str(folder)))
    recorder.take(exchange(1))
    wait_for(lambda: recorder.counts.recorded == 1)
    (folder / exchange_file(1)).mkdir()
    counts = recorder.close(20)

    assert (1, 1, {}) == (counts.accepted, counts.recorded, counts.failed)
    assert any("TF202" in reason for reason in counts.troubles)


def exchange_file(number: int) -> str:
    """The name of the file of an exchange's trace."""
    return f"2026-01-01T00-00-00-000Z_{exchange(number).id}.json"


def test_a_process_that_died_is_replaced_and_its_loss_counted(tmp_path: Path) -> None:
    """What it had written is there; what was on its way is lost and counted; what comes later is written."""
    folder = tmp_path / "traces"
    recorder = ProcessRecorder(RecorderSettings(str(folder)))
    recorder.take(exchange(1))
    wait_for(lambda: recorder.counts.recorded == 1)
    os.kill(recorder._process.pid, signal.SIGKILL)
    recorder._process.wait()
    for number in range(2, 6):
        recorder.take(exchange(number))
        time.sleep(0.05)
    counts = recorder.close(20)

    assert counts.accepted == counts.recorded + counts.lost == 5
    assert exchange(1).id in ids(folder)
    assert exchange(5).id in ids(folder)
    assert len(ids(folder)) == counts.recorded


def test_everything_sent_is_written_although_the_sender_is_killed(tmp_path: Path) -> None:
    """The recorder process goes on until everything it was sent is a file."""
    folder = tmp_path / "traces"
    script = f"""
import os, signal, sys, time
sys.path[:0] = {[str(Path(__file__).parents[2]), str(Path(__file__).parent)]!r}
from test_recorder import *
recorder = ProcessRecorder(RecorderSettings({str(folder)!r}))
for number in range(200):
    recorder.take(exchange(number))
wait_for(lambda: recorder._sent == 200)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = subprocess.run([sys.executable, "-c", script], check=False)

    assert -signal.SIGKILL == process.returncode
    wait_for(lambda: len(list(folder.glob("*.json"))) == 200 and not os.listdir(folder / "spool"))


def test_a_failure_of_ours_costs_one_trace_and_not_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted under its name, and the next call is written."""
    writer = TraceWriter(RecorderSettings(str(tmp_path)))
    compose = writer._composer.compose

    def fail_once(exchange: Exchange) -> object:
        monkeypatch.setattr(writer._composer, "compose", compose)
        raise ZeroDivisionError("secret in a message")

    monkeypatch.setattr(writer._composer, "compose", fail_once)
    writer.write(exchange(1))
    writer.write(exchange(2))

    assert (1, {"internal error: ZeroDivisionError": 1}) == (writer.counts.recorded, writer.counts.failed)


def test_settings_are_what_the_project_has_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a writer needs; they can cross a process border."""
    monkeypatch.setenv("TRACEFORGE_MATCH_KEY", "k1")
    monkeypatch.delenv("TRACEFORGE_TRACES_DIR", raising=False)
    config = {
        "traces_dir": "var", "durability": "sync", "max_trace_retention": 3,
        "redact_fields": ["a"], "redact_patterns": ["b"], "allow": ["c"],
    }  # fmt: skip
    (tmp_path / "traceforge.config.json").write_text(json.dumps(config))
    setting = RecorderSettings.from_project(load_config(str(tmp_path)))

    assert RecorderSettings(str(tmp_path / "var"), ("a",), ("b",), ("c",), b"k1", True, 3) == setting
    assert setting == msgspec.msgpack.decode(msgspec.msgpack.encode(setting), type=RecorderSettings)


def _run_script(folder: Path, lines: str) -> None:
    """Run a script that has a recorder for this folder."""
    head = f"""
import os, sys
sys.path[:0] = {[str(Path(__file__).parents[2]), str(Path(__file__).parent)]!r}
from test_recorder import *
recorder = ThreadRecorder(RecorderSettings({str(folder)!r}))
"""
    subprocess.run([sys.executable, "-c", head + lines], check=True)


def test_a_process_that_does_not_close_loses_nothing(tmp_path: Path) -> None:
    """The end of the interpreter closes the recorder, and traces are files."""
    folder = tmp_path / "traces"
    _run_script(folder, "for number in range(20): recorder.take(exchange(number))")

    assert [exchange(number).id for number in range(20)] == ids(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_that_exits_at_once_loses_nothing(tmp_path: Path) -> None:
    """What the child took is written at once, and becomes files with the parent's."""
    folder = tmp_path / "traces"
    _run_script(
        folder,
        """
recorder.take(exchange(1))
if os.fork() == 0:
    recorder.take(exchange(2))
    os._exit(0)
os.wait()
recorder.take(exchange(3))
recorder.close()
""",
    )

    assert [exchange(number).id for number in (1, 2, 3)] == ids(folder)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_that_is_forked_during_a_write_does_not_hang(tmp_path: Path) -> None:
    """The redaction's expressions have locks; one that is held during a fork would never be released in the child."""
    folder = tmp_path / "traces"
    _run_script(
        folder,
        f"""
import signal
for turn in range(15):
    recorder = ThreadRecorder(RecorderSettings({str(folder)!r}, redact_patterns=(f"never{{turn}}",)))
    recorder.take(exchange(2 * turn))
    time.sleep(turn / 1000)
    if os.fork() == 0:
        signal.alarm(5)
        recorder.take(exchange(2 * turn + 1))
        os._exit(0)
    assert os.wait()[1] == 0, turn
    recorder.close()
""",
    )

    assert 30 == len(ids(folder))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to give memory back")
def test_memory_that_a_burst_took_is_given_back() -> None:
    """Free blocks below one that is still used stay with the process until it trims its memory."""
    program = """
import os
from traceforge.capture.recorder_forks import trim_memory
def used() -> int:
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
blocks = [bytes(4096) for _ in range(20_000)]
last = bytes(4096)
del blocks
before = used()
trim_memory()
print(before - used())
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert int(process.stdout) > 40 << 20


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux binds a process to a core")
@pytest.mark.parametrize("cores", [{0}, {0, 1}])
def test_a_process_that_is_bound_to_one_core_does_not_fork(monkeypatch: pytest.MonkeyPatch, cores: set[int]) -> None:
    """However many cores the machine has: a fork on the same core only takes time from the proxy."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)

    assert (len(cores) > 1) == recorder_forks.can_fork()
