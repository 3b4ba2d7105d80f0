"""The proxy, recording, against direct calls, nginx (the limit) and five peers, everything in turn."""

from __future__ import annotations

import http.client
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
from load import (
    ANSWER,
    PATH,
    Load,
    NotRunning,
    Target,
    Use,
    call_once,
    children_of,
    free_port,
    process,
    use_of,
    use_of_all,
    wrk,
)
from peers import PEERS, Peer, running
from streams import watch

CONNECTIONS = (1, 16, 64)
ROUNDS = 3 if is_quick() else 5  # Peers take part in every second: they are far from any goal.
SECONDS = 1
PATIENCE_SECONDS = 5
SUSTAINED_SECONDS = 20 if is_quick() else 60
PEER_SUSTAINED_SECONDS = 10
PACE = 6000  # Calls a second that must all be kept, with time to make files of the last.
STREAM_ROUNDS = 3 if is_quick() else 5
MEMORY_CALLS = (50_000, 200_000)
MEMORY_GROWTH_MAX = 1.1
SETTLE_SECONDS_MAX = 60

RATE_GOAL = 0.4  # of nginx's calls a second, at 16 connections
PEER_GOAL = 12  # times those of the fastest peer
ADDED_GOAL = 2  # times what nginx adds to the median, at one connection
DELAY_GOAL = 1.5  # times nginx's
KEPT_GOAL = 5000  # traces a second, until the last is a file

# All but the sustained load writes to memory: removing files takes longer than making them, and ext4 looks at every
# inode that was freed in the last minutes when it makes a new file, so that one round would slow down the next.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
TRACEFORGE = str(Path(sys.executable).parent / "traceforge")
FILES = 3000
_SUMMARY = {"calls": "calls?,", "recorded": "recorded", "lost": "lost", "failed": "failures of recording",
            "waiting": "still being recorded"}  # fmt: skip

Rows = Iterator[Row | Note]


class Measured(NamedTuple):
    """One second of load."""

    load: Load
    cpu: float  # seconds a call, of the process and of what it has started
    beside: float  # of that, in what ours has started: its recorder
    memory: int


class Field:
    """Everything that is measured, and what was found, by name and connections."""

    def __init__(self, folder: Path, targets: dict[str, Target]) -> None:
        self.folder = folder
        self.targets = targets
        self.found: dict[tuple[str, int], list[Measured]] = {}

    def measure(self, name: str, connections: int) -> None:
        """Load one target for a moment. Ours keeps what it saw before anything else is measured."""
        target = self.targets[name]
        before, beside = use_of_all(target.process), _beside(target)
        try:
            load = wrk(target, self.folder, connections, SECONDS)
        except NotRunning:  # The slowest sometimes end no call within a second.
            load = wrk(target, self.folder, connections, PATIENCE_SECONDS)
        if name == "ours":
            settle(target)
        after = use_of_all(target.process)
        recorder = _beside(target).cpu - beside.cpu if name == "ours" else 0.0
        measured = Measured(load, (after.cpu - before.cpu) / load.calls, recorder / load.calls, after.memory)
        self.found.setdefault((name, connections), []).append(measured)

    def of(self, name: str, connections: int, part: Callable[[Measured], float]) -> float:
        """The median of something."""
        return statistics.median(part(one) for one in self.found[name, connections])


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
    """A folder on a real disk. Removing some hundred thousand files takes minutes, and nobody waits for it.

    What ext4 does with inodes that were freed in the last minutes counts here too: where such are near, a new file
    takes ten times as long, whoever makes it. So each folder in this one begins in another place of the disk.
    """
    folder = Path(tempfile.mkdtemp())
    subprocess.run(["chattr", "+T", str(folder)], check=False, capture_output=True)  # Only ext4 knows this.
    try:
        yield folder
    finally:
        subprocess.Popen(["nice", "rm", "-rf", str(folder)], start_new_session=True)


@contextmanager
def _field(folder: Path, upstream: Target) -> Iterator[tuple[Field, list[Note]]]:
    """All targets in front of one upstream, and the reasons why some are missing."""
    folder.mkdir()
    missing: list[Note] = []
    with ExitStack() as stack:
        nginx = Target("nginx", free_port())
        targets = {
            "direct": upstream,
            "nginx": stack.enter_context(
                process(nginx_command(folder, "nginx", _front_config(nginx.port, upstream.port)), nginx, folder)
            ),
            "ours": stack.enter_context(_ours(folder / "ours", upstream)),
        }
        for peer in PEERS:
            try:
                targets[peer.name] = stack.enter_context(running(peer, _url(upstream), folder / peer.name))
            except NotRunning as exc:
                missing.append(Note(str(exc), met=False))
        yield Field(folder, targets), missing


@contextmanager
def _ours(folder: Path, upstream: Target) -> Iterator[Target]:
    folder.mkdir()
    target = Target("ours", free_port(), f"/up{PATH}")
    command = [TRACEFORGE, "proxy", "--port", str(target.port), "--upstream", f"up={_url(upstream)}"]
    with process(command, target, folder) as started:
        yield started


def _url(target: Target) -> str:
    return f"http://127.0.0.1:{target.port}"


# -- calls


def _calls(folder: Path, direct: Target) -> Rows:
    with _field(folder / "calls", direct) as (field, missing):
        yield from missing
        fast = ("direct", "nginx", "ours")
        peers = [name for name in field.targets if name not in fast]
        yield from _drop_broken(field, peers, lambda name: _warm_up(field.targets[name], field.folder))
        for connections in CONNECTIONS:
            for number in range(ROUNDS):
                for name in (*fast, *(() if number % 2 else list(peers))):
                    try:
                        field.measure(name, connections)
                    except NotRunning as exc:
                        yield _drop(field, peers, name, exc)
            yield Note(f"{connections} connections (median of {ROUNDS} rounds of {SECONDS:g} s)")
            yield from (_line(field, name, connections) for name in field.targets)
        yield from _call_goals(field, peers)


def _drop_broken(field: Field, names: list[str], work: Callable[[str], object]) -> Iterator[Note]:
    """Warm everything up; what does not answer is told, and measured no further."""
    for name in list(field.targets):
        try:
            work(name)
        except NotRunning as exc:
            yield _drop(field, names, name, exc)


def _drop(field: Field, names: list[str], name: str, reason: NotRunning) -> Note:
    if name in ("direct", "nginx", "ours"):
        sys.exit(f"benchmark: {reason}")
    del field.targets[name]
    names.remove(name)
    return Note(str(reason), met=False)


def _warm_up(target: Target, folder: Path) -> None:
    call_once(target)
    wrk(target, folder, 16, SECONDS)


def _line(field: Field, name: str, connections: int) -> Note:
    rate = field.of(name, connections, lambda one: one.load.rate)
    added = [
        field.of(name, connections, part) - field.of("direct", connections, part)
        for part in (lambda one: one.load.p50, lambda one: one.load.p99)
    ]
    cpu = field.of(name, connections, lambda one: one.cpu)
    beside = field.of(name, connections, lambda one: one.beside)
    memory = field.found[name, connections][-1].memory
    recorder = f" ({_us(beside)} of it beside the call)" if beside else ""
    return Note(
        f"  {name:<10} {rate:>9,.0f} calls/s   added p50 {_us(added[0]):>10}  p99 {_us(added[1]):>10}   "
        f"{memory / 1e6:>5.0f} MB   CPU a call {_us(cpu):>9}{recorder}"
    )


def _call_goals(field: Field, peers: list[str]) -> Iterator[Row]:
    def seconds(name: str) -> list[float]:
        return [1 / one.load.rate for one in field.found[name, 16]]

    yield _compare("calls/s at 16 connections", seconds("ours"), seconds("nginx"), "nginx", RATE_GOAL)
    fastest = max(peers, key=lambda name: field.of(name, 16, lambda one: one.load.rate), default="")
    if fastest:
        mine = seconds("ours")[::2]  # the rounds in which the peers took part
        yield _compare("calls/s at 16 connections", mine, seconds(fastest), f"{fastest}, fastest peer", PEER_GOAL)
    p50s = [[one.load.p50 for one in field.found[name, 1]] for name in ("direct", "nginx", "ours")]
    yield _added("added p50 at one connection", *p50s, ADDED_GOAL)


def _compare(what: str, mine: list[float], theirs: list[float], name: str, goal: float) -> Row:
    speeds = [t / m for m, t in zip(mine, theirs, strict=True)]
    speed = statistics.median(speeds)
    told = f"{speed:.2f}x as fast (best {max(speeds):.2f}x), goal {goal:g}x"
    return Row(what, statistics.median(mine), statistics.median(theirs), name, speed, told, speed >= goal)


def _added(what: str, plain: list[float], theirs: list[float], mine: list[float], goal: float) -> Row:
    """What ours adds to direct, against what nginx adds, each by its median over all rounds."""
    peer, own = (statistics.median(t - p for p, t in zip(plain, times, strict=True)) for times in (theirs, mine))
    cost = own / max(peer, 1e-6)
    best = (min(mine) - min(plain)) / max(min(theirs) - min(plain), 1e-6)
    told = f"{cost:.2f}x added (best {best:.2f}x), goal {goal:g}x"
    return Row(what, max(own, 0.0), max(peer, 0.0), "nginx", 1 / cost if cost > 0 else 0.0, told, cost <= goal)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


# -- streams


def _streams(folder: Path, origin: Target) -> Rows:
    with _field(folder / "streams", origin) as (field, missing):
        yield from missing
        seen: dict[str, list[tuple[float, float]]] = {}
        number = time.time_ns() // 10**9  # A peer must not know it already.

        def once(name: str) -> tuple[float, float]:
            nonlocal number
            number += 1
            told = watch(field.targets[name], number)
            return statistics.median(told.first), statistics.median(told.delays)

        names = list(field.targets)
        yield from _drop_broken(field, names, once)
        for _ in range(STREAM_ROUNDS):
            for name in names:
                seen.setdefault(name, []).append(once(name))
        yield Note("16 streams at once: time to the first chunk, and delay of a chunk (medians)")
        firsts, delays = ({name: [times[part] for times in found] for name, found in seen.items()} for part in (0, 1))
        for name in names:
            first = statistics.median(firsts[name]) - statistics.median(firsts["direct"])
            yield Note(
                f"  {name:<10} first chunk added {_us(first):>10}   delay {_us(statistics.median(delays[name])):>9}"
            )
        cost = statistics.median(m / t for m, t in zip(delays["ours"], delays["nginx"], strict=True))
        told = f"{cost:.2f}x the delay, goal {DELAY_GOAL}x"
        mine, theirs = (statistics.median(delays[name]) for name in ("ours", "nginx"))
        yield Row("streams: delay p50 of a chunk", mine, theirs, "nginx", 1 / cost, told, cost <= DELAY_GOAL)


# -- sustained


def _all_sustained(folder: Path, direct: Target) -> Rows:
    """Load without a pause, a stop, and a count of what is on the disk."""
    yield Note(f"this disk makes {_files_a_second(folder / 'files'):,.0f} files/s of this size at the moment")
    yield Note(f"{SUSTAINED_SECONDS} s of {PACE:,} calls/s, then SIGTERM")
    yield from _paced(_sustained(folder / "paced", direct, PACE))
    yield Note(f"{SUSTAINED_SECONDS} s of load at 16 connections, then SIGTERM; peers {PEER_SUSTAINED_SECONDS} s")
    yield from _overflow(_sustained(folder / "sustained", direct))
    for peer in PEERS:
        if peer.recorded is not None:
            try:
                yield _peer_sustained(peer, folder / f"sustained-{peer.name}", direct)
            except NotRunning as exc:
                yield Note(str(exc), met=False)


def _files_a_second(folder: Path) -> float:
    folder.mkdir()
    data = b"x" * 5000
    began = time.monotonic()
    for number in range(FILES):
        (folder / "new").write_bytes(data)
        (folder / "new").rename(folder / f"{number}.json")
    os.sync()
    return FILES / (time.monotonic() - began)


class Kept(NamedTuple):
    """What became of a load."""

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
        """Is every call that was answered a file, or counted?"""
        kept = self.counted["recorded"] + self.counted["waiting"]
        told = kept + self.counted["lost"] + self.counted["failed"]
        return self.files == kept and self.calls == told and 0 <= self.calls - self.load.calls <= CONNECTIONS[-1]

    def note(self) -> Note:
        """As it is told."""
        return Note(
            f"  ours: {self.load.rate:,.0f} calls/s, {self.calls:,} calls, {self.files:,} files, "
            f"{self.counted['lost']:,} lost, {self.counted['failed']:,} failed, {self.counted['waiting']:,} late; "
            f"{self.rate:,.0f} traces/s; stopped after {self.stopped:.1f} s, all files after {self.ended:.1f} s; "
            f"{self.memory / 1e6:.0f} MB"
        )


def _sustained(folder: Path, direct: Target, pace: int = 0) -> Kept:
    with _ours(folder, direct) as ours:
        began = time.monotonic()
        load = wrk(ours, folder, CONNECTIONS[-1] if pace else 16, SUSTAINED_SECONDS, pace)
        loaded = time.monotonic()
        memory = use_of_all(ours.process).memory
        recorders = children_of(ours.process)
        os.kill(ours.process, signal.SIGTERM)
        while _runs(ours.process) or any(_runs(one) for one in recorders):
            time.sleep(0.01)
    stopped = time.monotonic()
    traces = folder / ".ai-tests" / "traces"
    rest = f"from traceforge.traces.spool_drain import drain; drain({str(traces)!r})"  # as the next command would
    subprocess.run([sys.executable, "-c", rest], check=True)
    ended = time.monotonic()
    files = sum(1 for name in os.listdir(traces) if name.endswith(".json"))
    said = (folder / "ours.out").read_text()
    counted = {name: _number(said, told) for name, told in _SUMMARY.items()}
    calls = counted.pop("calls")
    return Kept(load, calls, files, counted, memory, stopped - loaded, ended - loaded, files / (ended - began))


def _number(said: str, told: str) -> int:
    found = re.search(rf"(\d+) {told}", said)
    return int(found[1]) if found else 0


def _paced(kept: Kept) -> Rows:
    yield kept.note()
    told = f"{kept.rate:,.0f}/s, goal {KEPT_GOAL:,}/s"
    is_fast = kept.rate >= KEPT_GOAL
    what = "traces/s until the last is a file"
    yield Row(what, 1 / max(kept.rate, 1), 1 / KEPT_GOAL, "the goal", kept.rate, told, is_fast)
    is_whole = kept.is_exact and kept.files == kept.calls
    told = "every call is a file" if is_whole else f"{kept.files} files of {kept.calls} calls"
    yield Row("calls that are no file", 0, 0, "the goal", 0, told, is_whole)


def _overflow(kept: Kept) -> Rows:
    told = "each is a file or counted" if kept.is_exact else f"{kept.files} files, {kept.calls} calls, {kept.counted}"
    yield kept.note()
    yield Row("calls that are neither a file nor counted", 0, 0, "the goal", 0, told, kept.is_exact)


def _peer_sustained(peer: Peer, folder: Path, direct: Target) -> Note:
    assert peer.recorded is not None
    with running(peer, _url(direct), folder) as target:
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
    with _ours(folder / "memory", direct) as ours:
        calls, found = 0, []
        for goal in MEMORY_CALLS:
            while calls < goal:
                calls += wrk(ours, folder, 16, 4 * SECONDS).calls  # Enough to reach the most that ever waits.
                settle(ours)
            found.append((use_of(ours.process).memory, _beside(ours).memory))
    for which, before, after in zip(("proxy", "recorder"), *found, strict=True):
        told = f"{after / before:.2f}x after {MEMORY_CALLS[1]:,} calls, goal {MEMORY_GROWTH_MAX}x"
        text = f"memory of the {which}: {before / 1e6:.0f} MB, then {after / 1e6:.0f} MB"
        yield Row(text, 0, 0, f"after {MEMORY_CALLS[0]:,}", 0, told, after <= before * MEMORY_GROWTH_MAX)


def settle(target: Target) -> None:
    """Wait until everything that ours has seen is a file."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    spool = Path(f"/proc/{target.process}/cwd/.ai-tests/traces/spool")
    while _waiting(target) or any(spool.glob("*.segment")):
        if time.monotonic() > until:
            raise NotRunning(f"{target.name} did not come to rest")
        time.sleep(0.1)


def _waiting(target: Target) -> bool:
    """Is something on its way to the disk? The recorder says so twice a second."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read()
    connection.close()
    return re.search(rb"exchanges_waiting{[^}]*} 0\n", page) is None


def _beside(target: Target) -> Use:
    used = Use()
    for child in children_of(target.process):
        used = used.and_then(use_of(child))
    return used


# -- nginx


def nginx_command(folder: Path, name: str, http: str) -> list[str]:
    """nginx with one worker."""
    base = f"daemon off; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.log crit;"
    temporary = "".join(
        f"{kind}_temp_path {folder}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / f"{name}.conf"
    config.write_text(
        f"{base} events {{ worker_connections 1024; }} http {{ access_log off; {temporary}"
        f"keepalive_requests 1000000000; {http} }}"
    )
    return ["nginx", "-c", str(config), "-e", f"{folder}/{name}.log"]


def origin_config(port: int) -> str:
    """One answer, whatever is asked."""
    answer = f"default_type application/json; return 200 '{ANSWER}';"
    return f"server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}"


def _front_config(port: int, upstream: int) -> str:
    forward = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
    return (
        f"upstream one {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://one; {forward} }} }}"
    )
