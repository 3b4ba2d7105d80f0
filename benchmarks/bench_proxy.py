"""The proxy, recording, against direct calls, nginx (the limit) and five peers, everything in turn."""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from harness import Note, Row, is_quick
from load import Load, NotRunning, Target, call_once, children_of, free_port, process, use_of, use_of_all, wrk
from peers import PEERS, Peer, running
from proxy_targets import (
    MEMORY,
    base_url,
    nginx_command,
    origin_config,
    recorder_use,
    settle,
    start_nginx,
    start_traceforge,
)
from streams import watch

CONNECTIONS = (1, 16, 64)
ROUNDS = 3 if is_quick() else 5  # Peers take part in every second round: they are far from any goal.
SECONDS = 1
PATIENCE_SECONDS = 5
SUSTAINED_SECONDS = 20 if is_quick() else 60
PEER_SUSTAINED_SECONDS = 10
PACE = 6000  # Calls a second that must all be recorded, with time to write the last ones.
STREAM_ROUNDS = 3 if is_quick() else 5
MEMORY_CALLS = (50_000, 200_000)
MEMORY_GROWTH_MAX = 1.1

RATE_GOAL = 0.4  # of nginx's calls a second, at 16 connections
PEER_GOAL = 12  # times those of the fastest peer
ADDED_GOAL = 2  # times what nginx adds to the median, at one connection
DELAY_GOAL = 1.5  # times nginx's
KEPT_GOAL = 5000  # traces a second, until the last is a file
ONE_CORE_KEPT_GOAL = 2500  # the same, where proxy and recorder share a core
CALL_CPU_GOAL_US = 250  # of proxy and recorder together, until a call is a file and in the index
ARRANGEMENT_SECONDS = 5 if is_quick() else 20
FILES = 3000
_SUMMARY = {"calls": "calls?,", "recorded": "recorded", "lost": "lost", "failed": "recording failures",
            "waiting": "still being recorded"}  # fmt: skip

Rows = Iterator[Row | Note]


class LoadSample(NamedTuple):
    """One second of load."""

    load: Load
    cpu: float  # seconds a call, of the process and of what it has started
    recorder_cpu: float  # of that, in the recorder that ours has started
    memory: int


class Contest:
    """All targets, and their samples by name and connections."""

    def __init__(self, folder: Path, targets: dict[str, Target]) -> None:
        self.folder = folder
        self.targets = targets
        self.samples: dict[tuple[str, int], list[LoadSample]] = {}

    def measure(self, name: str, connections: int) -> None:
        """Load one target for a moment. Ours writes its traces to the disk before the next target is measured."""
        target = self.targets[name]
        before, recorder_before = use_of_all(target.process), recorder_use(target)
        try:
            load = wrk(target, self.folder, connections, SECONDS)
        except NotRunning:  # The slowest sometimes end no call within a second.
            load = wrk(target, self.folder, connections, PATIENCE_SECONDS)
        if name == "ours":
            settle(target)
        after = use_of_all(target.process)
        recorder = recorder_use(target).cpu - recorder_before.cpu if name == "ours" else 0.0
        measured = LoadSample(load, (after.cpu - before.cpu) / load.calls, recorder / load.calls, after.memory)
        self.samples.setdefault((name, connections), []).append(measured)

    def median(self, name: str, connections: int, figure: Callable[[LoadSample], float]) -> float:
        """The median of one figure of the samples."""
        return statistics.median(figure(sample) for sample in self.samples[name, connections])


def rows() -> Rows:
    """Everything is started once, and measured in turn."""
    for name in ("nginx", "wrk", "npm"):
        if shutil.which(name) is None:
            sys.exit(f"benchmark: {name} is missing: apt-get install nginx-light wrk npm")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True)))
        disk = stack.enter_context(_on_disk())
        direct, streams = _origins(stack, folder)
        yield from _calls(folder, direct)
        yield from _streams(folder, streams)
        yield from _all_sustained(disk, direct)
        yield from _memory(folder, direct)


def _origins(stack: ExitStack, folder: Path) -> tuple[Target, Target]:
    direct, streams = Target("direct", free_port()), Target("direct", free_port())
    origin = [sys.executable, str(Path(__file__).parent / "streams.py"), str(streams.port)]
    return (
        stack.enter_context(process(nginx_command(folder, "origin", origin_config(direct.port)), direct, folder)),
        stack.enter_context(process(origin, streams, folder)),
    )


@contextmanager
def _on_disk() -> Iterator[Path]:
    """A folder on a real disk. Removing some hundred thousand files takes minutes, so that happens in the background.

    Near inodes that were freed in the last minutes, ext4 takes ten times as long to create a file. So each folder in
    this one begins at another place of the disk.
    """
    folder = Path(tempfile.mkdtemp())
    subprocess.run(["chattr", "+T", str(folder)], check=False, capture_output=True)  # Only ext4 has this attribute.
    try:
        yield folder
    finally:
        subprocess.Popen(["nice", "rm", "-rf", str(folder)], start_new_session=True)


@contextmanager
def _open_contest(folder: Path, upstream: Target) -> Iterator[tuple[Contest, list[Note]]]:
    """All targets in front of one upstream, and the reasons why some are missing."""
    folder.mkdir()
    missing: list[Note] = []
    with ExitStack() as stack:
        targets = {
            "direct": upstream,
            "nginx": stack.enter_context(start_nginx(folder, upstream)),
            "ours": stack.enter_context(start_traceforge(folder / "ours", upstream)),
        }
        for peer in PEERS:
            try:
                targets[peer.name] = stack.enter_context(running(peer, base_url(upstream), folder / peer.name))
            except NotRunning as exc:
                missing.append(Note(str(exc), met=False))
        yield Contest(folder, targets), missing


# -- calls


def _calls(folder: Path, direct: Target) -> Rows:
    with _open_contest(folder / "calls", direct) as (contest, missing):
        yield from missing
        fast = ("direct", "nginx", "ours")
        peers = [name for name in contest.targets if name not in fast]
        yield from _drop_broken(contest, peers, lambda name: _warm_up(contest.targets[name], contest.folder))
        for connections in CONNECTIONS:
            for number in range(ROUNDS):
                for name in (*fast, *(() if number % 2 else list(peers))):
                    try:
                        contest.measure(name, connections)
                    except NotRunning as exc:
                        yield _drop(contest, peers, name, exc)
            yield Note(f"{connections} connections (median of {ROUNDS} rounds of {SECONDS:g} s)")
            yield from (_line(contest, name, connections) for name in contest.targets)
        yield from _call_goals(contest, peers)


def _drop_broken(contest: Contest, names: list[str], warm_up: Callable[[str], object]) -> Iterator[Note]:
    """Warm everything up; a target that does not answer is reported and dropped."""
    for name in list(contest.targets):
        try:
            warm_up(name)
        except NotRunning as exc:
            yield _drop(contest, names, name, exc)


def _drop(contest: Contest, names: list[str], name: str, reason: NotRunning) -> Note:
    if name in ("direct", "nginx", "ours"):
        sys.exit(f"benchmark: {reason}")
    del contest.targets[name]
    names.remove(name)
    return Note(str(reason), met=False)


def _warm_up(target: Target, folder: Path) -> None:
    call_once(target)
    wrk(target, folder, 16, SECONDS)


def _line(contest: Contest, name: str, connections: int) -> Note:
    rate = contest.median(name, connections, lambda sample: sample.load.rate)
    added = [
        contest.median(name, connections, part) - contest.median("direct", connections, part)
        for part in (lambda sample: sample.load.p50, lambda sample: sample.load.p99)
    ]
    cpu = contest.median(name, connections, lambda sample: sample.cpu)
    recorder_cpu = contest.median(name, connections, lambda sample: sample.recorder_cpu)
    memory = contest.samples[name, connections][-1].memory
    recorder = f" ({_us(recorder_cpu)} of it in the recorder)" if recorder_cpu else ""
    return Note(
        f"  {name:<10} {rate:>9,.0f} calls/s   added p50 {_us(added[0]):>10}  p99 {_us(added[1]):>10}   "
        f"{memory / 1e6:>5.0f} MB   CPU a call {_us(cpu):>9}{recorder}"
    )


def _call_goals(contest: Contest, peers: list[str]) -> Iterator[Row]:
    def seconds(name: str) -> list[float]:
        return [1 / sample.load.rate for sample in contest.samples[name, 16]]

    yield _compare("calls/s at 16 connections", seconds("ours"), seconds("nginx"), "nginx", RATE_GOAL)
    fastest = max(peers, key=lambda name: contest.median(name, 16, lambda sample: sample.load.rate), default="")
    if fastest:
        mine = seconds("ours")[::2]  # the rounds in which the peers took part
        yield _compare("calls/s at 16 connections", mine, seconds(fastest), f"{fastest}, fastest peer", PEER_GOAL)
    p50s = [[sample.load.p50 for sample in contest.samples[name, 1]] for name in ("direct", "nginx", "ours")]
    yield _added("added p50 at one connection", *p50s, ADDED_GOAL)


def _compare(title: str, mine: list[float], theirs: list[float], name: str, goal: float) -> Row:
    speeds = [t / m for m, t in zip(mine, theirs, strict=True)]
    speed = statistics.median(speeds)
    result = f"{speed:.2f}x as fast (best {max(speeds):.2f}x), goal {goal:g}x"
    return Row(title, statistics.median(mine), statistics.median(theirs), name, speed, result, speed >= goal)


def _added(title: str, plain: list[float], theirs: list[float], mine: list[float], goal: float) -> Row:
    """The time that ours adds to a direct call, against that of nginx, each the median over all rounds."""
    peer, own = (statistics.median(t - p for p, t in zip(plain, times, strict=True)) for times in (theirs, mine))
    cost = own / max(peer, 1e-6)
    best = (min(mine) - min(plain)) / max(min(theirs) - min(plain), 1e-6)
    result = f"{cost:.2f}x added (best {best:.2f}x), goal {goal:g}x"
    return Row(title, max(own, 0.0), max(peer, 0.0), "nginx", 1 / cost if cost > 0 else 0.0, result, cost <= goal)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


# -- streams


def _streams(folder: Path, origin: Target) -> Rows:
    with _open_contest(folder / "streams", origin) as (contest, missing):
        yield from missing
        times: dict[str, list[tuple[float, float]]] = {}
        number = time.time_ns() // 10**9  # A peer that replays must not have seen it.

        def measure(name: str) -> tuple[float, float]:
            nonlocal number
            number += 1
            times = watch(contest.targets[name], number)
            return statistics.median(times.first), statistics.median(times.delays)

        names = list(contest.targets)
        yield from _drop_broken(contest, names, measure)
        for _ in range(STREAM_ROUNDS):
            for name in names:
                times.setdefault(name, []).append(measure(name))
        yield Note("16 streams at once: time to the first chunk, and delay of a chunk (medians)")
        firsts, delays = ({name: [pair[part] for pair in pairs] for name, pairs in times.items()} for part in (0, 1))
        for name in names:
            first = statistics.median(firsts[name]) - statistics.median(firsts["direct"])
            yield Note(
                f"  {name:<10} first chunk added {_us(first):>10}   delay {_us(statistics.median(delays[name])):>9}"
            )
        cost = statistics.median(m / t for m, t in zip(delays["ours"], delays["nginx"], strict=True))
        result = f"{cost:.2f}x the delay, goal {DELAY_GOAL}x"
        mine, theirs = (statistics.median(delays[name]) for name in ("ours", "nginx"))
        yield Row("streams: delay p50 of a chunk", mine, theirs, "nginx", 1 / cost, result, cost <= DELAY_GOAL)


# -- sustained


def _all_sustained(folder: Path, direct: Target) -> Rows:
    """Load without a pause, a stop, and a count of the files on the disk."""
    yield Note(f"this disk makes {_files_a_second(folder / 'files'):,.0f} files/s of this size at the moment")
    yield Note(f"{SUSTAINED_SECONDS} s of {PACE:,} calls/s, then SIGTERM")
    yield from _paced(_sustained(folder / "paced", direct, PACE))
    yield Note(f"{SUSTAINED_SECONDS} s of load at 16 connections, then SIGTERM; peers {PEER_SUSTAINED_SECONDS} s")
    yield from _overflow(_sustained(folder / "sustained", direct))
    yield Note(f"{ARRANGEMENT_SECONDS} s of load at 16 connections, proxy and recorder bound to cores")
    yield from _arrangements(folder, direct)
    for peer in PEERS:
        if peer.recorded is not None:
            try:
                yield _peer_sustained(peer, folder / f"sustained-{peer.name}", direct)
            except NotRunning as exc:
                yield Note(str(exc), met=False)


def _arrangements(folder: Path, direct: Target) -> Rows:
    """The recorder on the core of the proxy, and on the other core: how much both cost, until the last is a file.

    More calls come than can be recorded, so the CPU time of the proxy is divided by calls, and the rest by traces.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield Note("there is only one core here", met=False)
        return
    for title, recorder_core in (("on the same core", cores[0]), ("on the other core", cores[1])):
        place = folder / title.replace(" ", "-")
        with start_nginx(folder, direct) as nginx, start_traceforge(place, direct) as ours:
            for peer in (nginx.process, *children_of(nginx.process), ours.process):
                _pin(peer, cores[0])
            for recorder in children_of(ours.process):
                _pin(recorder, recorder_core)
            limit = wrk(nginx, folder, 16, ARRANGEMENT_SECONDS)
            before, recorder_before, began = use_of(ours.process), recorder_use(ours), time.monotonic()
            load = wrk(ours, folder, 16, ARRANGEMENT_SECONDS)
            settle(ours)
            traces = _count_traces(place)
            rate = traces / (time.monotonic() - began)
            proxy_us = (use_of(ours.process).cpu - before.cpu) / load.calls * 1e6
            recorder_us = (recorder_use(ours).cpu - recorder_before.cpu) / traces * 1e6
            cpu_us = proxy_us + recorder_us
        yield Note(
            f"  recorder {title}: {load.rate:,.0f} calls/s, {load.calls:,} calls, {traces:,} traces, "
            f"{rate:,.0f} a second until the last is a file; "
            f"CPU {proxy_us:.0f} µs in the proxy, {recorder_us:.0f} µs in the recorder"
        )
        speeds = [1 / load.rate], [1 / limit.rate]
        yield _compare(f"calls/s, recorder {title}", *speeds, "nginx on one core", RATE_GOAL)
        result = f"{cpu_us:.0f} µs, goal {CALL_CPU_GOAL_US} µs"
        is_cheap = cpu_us <= CALL_CPU_GOAL_US
        cpu = cpu_us / 1e6, CALL_CPU_GOAL_US / 1e6
        yield Row(f"CPU a recorded call, recorder {title}", *cpu, "the goal", cpu[1] / cpu[0], result, is_cheap)
        if recorder_core == cores[0]:
            result = f"{rate:,.0f}/s, goal {ONE_CORE_KEPT_GOAL:,}/s"
            is_fast = rate >= ONE_CORE_KEPT_GOAL
            yield Row("traces/s on one core", 1 / rate, 1 / ONE_CORE_KEPT_GOAL, "the goal", rate, result, is_fast)


def _pin(process: int, core: int) -> None:
    """Bind every thread of a process to a core; what it starts later inherits that."""
    for thread in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(thread), {core})


def _files_a_second(folder: Path) -> float:
    folder.mkdir()
    data = b"x" * 5000
    began = time.monotonic()
    for number in range(FILES):
        (folder / "new").write_bytes(data)
        (folder / "new").rename(folder / f"{number}.json")
    os.sync()
    return FILES / (time.monotonic() - began)


class SustainedLoad(NamedTuple):
    """A load, and the traces that it left."""

    load: Load
    calls: int
    files: int
    counted: dict[str, int]
    memory: int
    stopped: float  # seconds after the load
    ended: float  # seconds after the load, until the last trace is a file
    rate: float  # traces a second, from the first call until the last trace is a file

    @property
    def is_exact(self) -> bool:
        """Whether every answered call is a file, or counted as lost."""
        recorded = self.counted["recorded"] + self.counted["waiting"]
        total = recorded + self.counted["lost"] + self.counted["failed"]
        return self.files == recorded and self.calls == total and 0 <= self.calls - self.load.calls <= CONNECTIONS[-1]

    def note(self) -> Note:
        return Note(
            f"  ours: {self.load.rate:,.0f} calls/s, {self.calls:,} calls, {self.files:,} files, "
            f"{self.counted['lost']:,} lost, {self.counted['failed']:,} failed, {self.counted['waiting']:,} late; "
            f"{self.rate:,.0f} traces/s; stopped after {self.stopped:.1f} s, all files after {self.ended:.1f} s; "
            f"{self.memory / 1e6:.0f} MB"
        )


def _sustained(folder: Path, direct: Target, pace: int = 0) -> SustainedLoad:
    with start_traceforge(folder, direct) as ours:
        began = time.monotonic()
        load = wrk(ours, folder, CONNECTIONS[-1] if pace else 16, SUSTAINED_SECONDS, pace)
        loaded = time.monotonic()
        memory = use_of_all(ours.process).memory
        recorders = children_of(ours.process)
        os.kill(ours.process, signal.SIGTERM)
        while _runs(ours.process) or any(_runs(recorder) for recorder in recorders):
            time.sleep(0.01)
    stopped = time.monotonic()
    traces = folder / ".ai-tests" / "traces"
    # As the next command would.
    drain = f"from traceforge.traces.spool_drain import drain_spool; drain_spool({str(traces)!r})"
    subprocess.run([sys.executable, "-c", drain], check=True)
    ended = time.monotonic()
    files = _count_traces(folder)
    output = (folder / "ours.out").read_text()
    counted = {name: _number(output, label) for name, label in _SUMMARY.items()}
    calls = counted.pop("calls")
    return SustainedLoad(
        load, calls, files, counted, memory, stopped - loaded, ended - loaded, files / (ended - began)
    )


def _count_traces(folder: Path) -> int:
    """How many traces of a project are files."""
    return sum(1 for name in os.listdir(folder / ".ai-tests" / "traces") if name.endswith(".json"))


def _number(output: str, label: str) -> int:
    match = re.search(rf"(\d+) {label}", output)
    return int(match[1]) if match else 0


def _paced(outcome: SustainedLoad) -> Rows:
    yield outcome.note()
    result = f"{outcome.rate:,.0f}/s, goal {KEPT_GOAL:,}/s"
    is_fast = outcome.rate >= KEPT_GOAL
    title = "traces/s until the last is a file"
    yield Row(title, 1 / max(outcome.rate, 1), 1 / KEPT_GOAL, "the goal", outcome.rate, result, is_fast)
    is_complete = outcome.is_exact and outcome.files == outcome.calls
    result = "every call is a file" if is_complete else f"{outcome.files} files of {outcome.calls} calls"
    yield Row("calls that are no file", 0, 0, "the goal", 0, result, is_complete)


def _overflow(outcome: SustainedLoad) -> Rows:
    result = (
        "each is a file or counted"
        if outcome.is_exact
        else f"{outcome.files} files, {outcome.calls} calls, {outcome.counted}"
    )
    yield outcome.note()
    yield Row("calls that are neither a file nor counted", 0, 0, "the goal", 0, result, outcome.is_exact)


def _peer_sustained(peer: Peer, folder: Path, direct: Target) -> Note:
    assert peer.recorded is not None
    with running(peer, base_url(direct), folder) as target:
        began = time.monotonic()
        load = wrk(target, folder, 16, PEER_SUSTAINED_SECONDS)
    took = time.monotonic() - began
    count = peer.recorded(folder)
    return Note(
        f"  {peer.name}: {load.rate:,.0f} calls/s, {load.calls:,} calls, {count:,} on the disk: {count / took:,.0f}/s"
    )


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- memory


def _memory(folder: Path, direct: Target) -> Rows:
    """Both processes after some calls, and after four times as many; each time everything is on the disk."""
    with start_traceforge(folder / "memory", direct) as ours:
        calls, memory = 0, []
        for goal in MEMORY_CALLS:
            while calls < goal:
                calls += wrk(ours, folder, 16, 4 * SECONDS).calls  # Enough to fill the queue.
                settle(ours)
            memory.append((use_of(ours.process).memory, recorder_use(ours).memory))
    for name, before, after in zip(("proxy", "recorder"), *memory, strict=True):
        result = f"{after / before:.2f}x after {MEMORY_CALLS[1]:,} calls, goal {MEMORY_GROWTH_MAX}x"
        text = f"memory of the {name}: {before / 1e6:.0f} MB, then {after / 1e6:.0f} MB"
        yield Row(text, 0, 0, f"after {MEMORY_CALLS[0]:,}", 0, result, after <= before * MEMORY_GROWTH_MAX)
