"""A recorded call, replayed by the proxy, against nginx with a static answer, and against peers that replay."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from harness import Note, Row, is_quick
from load import BODY, PATH, SEED_PLACE, NotRunning, Target, call_once, free_port, process, wrk
from peers import PEERS, aimock_replay, reel_replay, running
from proxy_targets import MEMORY, TRACEFORGE, nginx_command, origin_config

CONNECTIONS = 16
ROUNDS = 3 if is_quick() else 7
SECONDS = 1
NGINX_GOAL = 0.4  # of its calls a second
PEER_GOAL = 3  # times those of each peer
REQUEST_BODY = BODY.replace(SEED_PLACE, "of the day")
REPLAYING: dict[str, Callable[[int, Path], list[str]]] = {"aimock": aimock_replay, "reel-vcr": reel_replay}


def rows() -> Iterator[Row | Note]:
    """Every target records one call, is restarted to replay it, and is measured in turn."""
    for name in ("nginx", "wrk", "npm"):
        if shutil.which(name) is None:
            sys.exit(f"benchmark: {name} is missing: apt-get install nginx-light wrk npm")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True)))
        origin = Target("nginx", free_port())
        command = nginx_command(folder, "origin", origin_config(origin.port))
        targets = {"nginx": stack.enter_context(process(command, origin, folder))}
        targets["ours"] = _ours(stack, folder / "ours", targets["nginx"])
        for peer in PEERS:
            if peer.name in REPLAYING:
                try:
                    with running(peer, f"http://127.0.0.1:{origin.port}", folder / peer.name) as recording:
                        call_once(recording, REQUEST_BODY)
                    target = Target(peer.name, free_port())
                    replay = REPLAYING[peer.name](target.port, folder / peer.name)
                    targets[peer.name] = stack.enter_context(process(replay, target, folder / peer.name))
                    call_once(targets[peer.name], REQUEST_BODY)
                except NotRunning as exc:
                    targets.pop(peer.name, None)
                    yield Note(str(exc), met=False)
        yield from _measured(targets, folder)


def _ours(stack: ExitStack, folder: Path, origin: Target) -> Target:
    folder.mkdir()
    upstream = ["--upstream", f"up=http://127.0.0.1:{origin.port}"]
    target = Target("ours", free_port(), f"/up{PATH}")
    command = [TRACEFORGE, "proxy", "--port", str(target.port), *upstream]
    with process(command, target, folder) as recording:
        call_once(recording, REQUEST_BODY)
    replay_target = Target("ours", free_port(), f"/up{PATH}")
    replay = [TRACEFORGE, "proxy", "--mode", "replay", "--port", str(replay_target.port), *upstream]
    replaying = stack.enter_context(process(replay, replay_target, folder))
    call_once(replaying, REQUEST_BODY)
    return replaying


def _measured(targets: dict[str, Target], folder: Path) -> Iterator[Row | Note]:
    rates_by_name: dict[str, list[float]] = {name: [] for name in targets}
    for number in range(ROUNDS + 1):
        for name, target in targets.items():
            rate = wrk(target, folder, CONNECTIONS, SECONDS, body=REQUEST_BODY).rate
            if number:  # The first warms up.
                rates_by_name[name].append(rate)
    for name, rates in rates_by_name.items():
        yield Note(f"{name:<10} {statistics.median(rates):>9,.0f} calls/s at {CONNECTIONS} connections")
    for name in targets:
        if name != "ours":
            yield _row(rates_by_name["ours"], rates_by_name[name], name, NGINX_GOAL if name == "nginx" else PEER_GOAL)


def _row(ours: list[float], theirs: list[float], name: str, goal: float) -> Row:
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    result = f"{ratio:.2f}x the calls, goal {goal:g}x"
    title = "replay through the proxy"
    return Row(title, 1 / statistics.median(ours), 1 / statistics.median(theirs), name, ratio, result, ratio >= goal)
