"""Sinks that keep what they take, beside the call."""

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
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support.work import finish
from traceforge.capture import recorder as module
from traceforge.capture import recorder_forks, recorder_process
from traceforge.capture.recorder import ProcessRecorder, Recorder, ThreadRecorder
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.capture.trace_writer import TIME_IS_UP, RecorderSettings, TraceWriter
from traceforge.config import load_config
from traceforge.exchange import Chunk, Exchange
from traceforge.traces.spool_drain import DrainResult, drain_spool

RECORDERS: list[Callable[[RecorderSettings], Recorder]] = [ThreadRecorder, ProcessRecorder]


def exchange(number: int = 0, text: str = "hello") -> Exchange:
    """One chat call."""
    request = {"model": "m", "messages": [{"role": "user", "content": text}]}
    answer = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }  # fmt: skip
    return Exchange(
        f"00000000-0000-4000-8000-{number:012d}",
        "2026-01-01T00:00:00.000Z",
        "POST",
        "https://api.example.com/v1/chat/completions",
        (("Authorization", "Bearer sk-proj-" + "Ab1" * 16),),
        json.dumps(request).encode(),
        200,
        (("Content-Type", "application/json"),),
        (Chunk(1.0, json.dumps(answer).encode()),),
        2.0,
    )


def ids(folder: Path) -> list[str]:
    """The ids of the traces that are files."""
    return sorted(json.loads(file.read_bytes())["id"] for file in folder.glob("*.json"))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is true; fail where it never becomes so."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)


@pytest.mark.parametrize("make", RECORDERS)
def test_everything_taken_is_a_file_after_close(make: Callable[[RecorderSettings], Recorder], tmp_path: Path) -> None:
    """Once, redacted, and the spool is empty."""
    folder = tmp_path / "traces"
    recorder = make(RecorderSettings(str(folder)))
    for number in range(50):
        recorder.take(exchange(number))
    told = recorder.close(20)

    assert (50, 0, 50, {}) == (told.taken, told.lost, told.recorded, told.failed)
    assert [exchange(number).id for number in range(50)] == ids(folder)
    assert [] == os.listdir(folder / "spool")
    assert not any(b"Ab1Ab1" in file.read_bytes() for file in folder.glob("*.json"))
    assert told == recorder.close(), "closing twice changes nothing"


@pytest.mark.parametrize("make", RECORDERS)
def test_a_full_backlog_loses_and_counts(
    make: Callable[[RecorderSettings], Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking never waits: what does not fit is lost, and said."""
    monkeypatch.setattr(module, "BACKLOG_BYTES_MAX", 10)
    recorder = make(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange())
    told = recorder.close(20)

    assert (1, 1, 0) == (told.taken, told.lost, told.recorded)


@pytest.mark.parametrize("make", RECORDERS)
def test_a_folder_that_cannot_be_written_is_counted_with_the_reason(
    make: Callable[[RecorderSettings], Recorder], tmp_path: Path
) -> None:
    """The application goes on; the summary says what happened."""
    (tmp_path / "traces").write_text("a file stands in the way")
    recorder = make(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange(1))
    recorder.take(exchange(2))
    told = recorder.close(20)

    assert (2, 0, 0) == (told.taken, told.lost, told.recorded)
    assert 2 == max(told.failed.values())
    assert any("TF202" in reason for reason in told.failed)


def test_a_process_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop comes in time; what never left is lost, the rest is on its way, and nothing counts twice."""
    monkeypatch.setattr(module, "BATCH_BYTES_MAX", 100 << 10)
    recorder = ProcessRecorder(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange(0))
    wait_for(lambda: recorder.counts.recorded == 1)
    os.kill(recorder._process.pid, signal.SIGSTOP)
    try:
        for number in range(1, 300):
            recorder.take(exchange(number, "long " * 1000))
        told = finish(lambda: recorder.close(0.5))
    finally:
        os.kill(recorder._process.pid, signal.SIGCONT)
        recorder._reader.join(20)
        recorder._socket.close()

    assert 0 < told.lost
    assert 0 < told.waiting
    assert 300 == told.taken == told.recorded + told.lost + told.waiting
    assert {module.STILL_AT_WORK: 1} == told.troubles


def test_a_thread_that_is_too_slow_is_given_up_and_what_it_leaves_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends takes what is in its memory along: that is said to be lost, and the rest is files."""
    monkeypatch.setattr(module, "WRITE_SECONDS_MAX", 0.3)
    monkeypatch.setattr(module, "BATCH_BYTES_MAX", 1)
    folder = tmp_path / "traces"
    recorder = ThreadRecorder(RecorderSettings(str(folder)))
    write = recorder._writer.write
    monkeypatch.setattr(recorder._writer, "write", lambda one: (time.sleep(0.02), write(one)))
    for number in range(200):
        recorder.take(exchange(number))
    told = recorder.close(0.2)

    assert 0 < told.recorded == len(ids(folder))
    assert 0 < told.lost
    assert (200, 0) == (told.recorded + told.lost, told.waiting)


def test_what_was_kept_and_had_no_time_to_become_files_is_said(tmp_path: Path) -> None:
    """It is no loss: the next command makes the files."""
    recorder = ThreadRecorder(RecorderSettings(str(tmp_path / "traces")))
    recorder.take(exchange(1))
    told = recorder.close(0)

    assert (1, {TIME_IS_UP: 1}) == (told.recorded, told.troubles)
    assert 1 == drain_spool(str(tmp_path / "traces")).traces


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("dies", [False, True])
def test_help_at_the_end_is_counted_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool) -> None:
    """A fork keeps half of what is left; what it had not kept when it died is lost, and everything is counted."""
    monkeypatch.setattr(recorder_process, "FORK_FRAMES_MIN", 2)
    monkeypatch.setattr(recorder_forks, "REPORT_EVERY", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    folder = tmp_path / "traces"
    writer, owner = TraceWriter(RecorderSettings(str(folder))), os.getpid()
    write = writer.write

    def write_or_die(one: Exchange | bytes) -> None:
        if dies and os.getpid() != owner and writer.written == 7:
            os._exit(1)
        write(one)

    monkeypatch.setattr(writer, "write", write_or_die)
    told = receive(writer, 40)

    assert (27 if dies else 40) == told[-1].recorded == len(ids(folder))
    assert 40 == told[-1].recorded + told[-1].lost
    assert [] == os.listdir(folder / "spool")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("dies", [False, True])
def test_files_are_made_beside_the_recorder_when_it_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """In a process that ends with it; where that dies, files are made at the end."""
    monkeypatch.setattr(recorder_process, "BEHIND_BYTES", 0)
    monkeypatch.setattr(recorder_process, "BATCH_BYTES", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
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
    told = receive(writer, 5, wait=makers.exists)

    assert (5, 0) == (told[-1].recorded, told[-1].lost)
    assert 5 == len(ids(folder))
    assert [] == os.listdir(folder / "spool")
    (fork,) = {int(line) for line in makers.read_text().split()} - {owner}
    with pytest.raises(ProcessLookupError):
        os.kill(fork, 0)
    if not dies:
        assert 5 == told[-1].drained


def test_the_recorder_rests_in_a_burst_and_not_when_it_is_behind_for_long(tmp_path: Path) -> None:
    """A proxy that is busy for a moment has the cores; what waits for seconds is worked on."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        one = recorder_process._RecorderProcess(theirs, TraceWriter(RecorderSettings(str(tmp_path / "traces"))))
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
            one._frames.backlog.bytes = waiting
            rests.append(one._is_burst(now))

    assert [False, True, True, False, False, True, False] == rests


def receive(writer: TraceWriter, number: int, wait: Callable[[], bool] = lambda: True) -> list[RecordingCounts]:
    """Be the process that keeps: what it tells."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for place in range(number):
            data = bytearray()
            exchange(place).write_to(data)
            module.send_frame(ours, bytes(data))
        one = recorder_process._RecorderProcess(theirs, writer)
        last = threading.Thread(target=lambda: (wait_for(wait), ours.sendall(module.END_FRAME.pack(0, 20.0))))
        last.start()
        if wait():
            wait_for(lambda: bool(one._frames.deadline))
        one.run()
        last.join()
        theirs.shutdown(socket.SHUT_WR)
        return [
            msgspec.msgpack.decode(data, type=RecordingCounts)
            for data in iter(lambda: module.receive_frame(ours), None)
        ]


def test_what_cannot_become_a_file_is_no_loss(tmp_path: Path) -> None:
    """The trace is kept in the spool: the reason is told, and no call is counted as failed for it."""
    folder = tmp_path / "traces"
    recorder = ThreadRecorder(RecorderSettings(str(folder)))
    recorder.take(exchange(1))
    wait_for(lambda: recorder.counts.recorded == 1)
    (folder / exchange_file(1)).mkdir()
    told = recorder.close(20)

    assert (1, 1, {}) == (told.taken, told.recorded, told.failed)
    assert any("TF202" in reason for reason in told.troubles)


def exchange_file(number: int) -> str:
    """What the file of an exchange's trace is called."""
    return f"2026-01-01T00-00-00-000Z_{exchange(number).id}.json"


def test_a_process_that_died_is_replaced_and_its_loss_counted(tmp_path: Path) -> None:
    """What it had kept is there; what was on its way is counted; what comes later is kept."""
    folder = tmp_path / "traces"
    recorder = ProcessRecorder(RecorderSettings(str(folder)))
    recorder.take(exchange(1))
    wait_for(lambda: recorder.counts.recorded == 1)
    os.kill(recorder._process.pid, signal.SIGKILL)
    recorder._process.wait()
    for number in range(2, 6):
        recorder.take(exchange(number))
        time.sleep(0.05)
    told = recorder.close(20)

    assert told.taken == told.recorded + told.lost == 5
    assert exchange(1).id in ids(folder)
    assert exchange(5).id in ids(folder)
    assert len(ids(folder)) == told.recorded


def test_everything_is_kept_though_the_sender_is_killed(tmp_path: Path) -> None:
    """The process that keeps goes on until all it was sent is a file."""
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
    done = subprocess.run([sys.executable, "-c", script], check=False)

    assert -signal.SIGKILL == done.returncode
    wait_for(lambda: len(list(folder.glob("*.json"))) == 200 and not os.listdir(folder / "spool"))


def test_a_mistake_of_ours_costs_one_trace_and_not_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted under its name, and the next call is kept."""
    writer = TraceWriter(RecorderSettings(str(tmp_path)))
    compose = writer._composer.compose

    def fail_once(one: Exchange) -> object:
        monkeypatch.setattr(writer._composer, "compose", compose)
        raise ZeroDivisionError("secret in a message")

    monkeypatch.setattr(writer._composer, "compose", fail_once)
    writer.write(exchange(1))
    writer.write(exchange(2))

    assert (1, {"internal error: ZeroDivisionError": 1}) == (writer.counts.recorded, writer.counts.failed)


def test_a_setting_is_what_the_project_has_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of it that a writer needs, and it can cross a process border."""
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


def test_a_process_that_forgets_to_close_keeps_everything(tmp_path: Path) -> None:
    """The end of the interpreter closes what is open, and traces are files."""
    folder = tmp_path / "traces"
    _run_script(folder, "for number in range(20): recorder.take(exchange(number))")

    assert [exchange(number).id for number in range(20)] == ids(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_that_ends_without_a_word_loses_nothing(tmp_path: Path) -> None:
    """What the child took is kept at once, and becomes files with the parent's."""
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_that_is_forked_while_something_is_kept_does_not_hang(tmp_path: Path) -> None:
    """The expressions that redact have locks; one that is held during a fork would never be free in the child."""
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
    """Blocks that lie below one that is still used are free, and stay with the process until somebody asks."""
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert int(done.stdout) > 40 << 20
