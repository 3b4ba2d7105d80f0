"""The pytest plugin: CPU time added to a replayed call of the openai SDK, and to a run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_replay import TEXT
from harness import Row, is_quick
from sdk_replay import CALLS, GOAL_US, ROUNDS, SdkClients

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.model_servers import model_server

SNAPSHOTS = (10, 200)
RUN_ROUNDS = 5 if is_quick() else 15
LOCAL_ADDRESS = "http://127.0.0.1:9/v1"  # as the calls were recorded; a port of this machine makes no difference
RUN_GOAL_MS = 80.0  # of CPU time that the plugin may add to a run
NOTHING_MS = 10.0  # The same without snapshots: less than the spread of equal runs.
RECORDS = """import openai
import pytest


@pytest.mark.parametrize("number", range({count}))
def test_one(number: int) -> None:
    text = {text!r} + str(number)
    openai.OpenAI().chat.completions.create(
        model="m", temperature=0, seed=7, max_tokens=9, messages=[{{"role": "user", "content": text}}]
    )
"""
ASKS_NOTHING = """import pytest


@pytest.mark.parametrize("number", range(50))
def test_nothing(number: int) -> None:
    pass
"""


class AddedTimeRow(Row):
    """A row about the time added to a run."""

    def text(self) -> str:
        """The row as it is printed."""
        times = f"{self.ours * 1e3:.0f} ms against {self.peer * 1e3:.0f} ms of CPU ({self.peer_name})"
        return f"  {self.title:<46} {times:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


def rows() -> Iterator[Row]:
    """Every comparison."""
    with TemporaryDirectory() as folder:
        projects = {count: record_project(Path(folder), count) for count in SNAPSHOTS}
        yield call_row(projects[SNAPSHOTS[0]])
        for count, project in projects.items():
            (project / "test_one.py").write_text(ASKS_NOTHING)
            yield run_row(f"a run, {count} snapshots, no model call", project, RUN_GOAL_MS)
        empty = Path(folder) / "empty"
        empty.mkdir()
        (empty / "test_one.py").write_text(ASKS_NOTHING)
        yield run_row("a run, no snapshots", empty, NOTHING_MS)


def record_project(folder: Path, count: int) -> Path:
    """A project with `count` snapshots, recorded by the plugin."""
    project = folder / str(count)
    project.mkdir()
    (project / "test_one.py").write_text(RECORDS.format(count=count, text=TEXT))
    command = shutil.which("traceforge", path=os.path.dirname(sys.executable))
    assert command is not None
    with model_server() as server:
        environ = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none", "CI": ""}
        for words in (
            [sys.executable, *PYTEST, "--traceforge=record"],
            [command, "approve", "--all", "--reason", "for the benchmark"],
        ):
            completed = subprocess.run(words, cwd=project, env=environ, capture_output=True, text=True, check=False)
            if completed.returncode:
                sys.exit(f"benchmark: the plugin did not record: {completed.stdout[-500:]}{completed.stderr[-500:]}")
    return project


PYTEST = [
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:anyio",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:schemathesis",
]


def call_row(project: Path) -> Row:
    """Measured in a separate process, which keeps the gate open as the plugin does."""
    completed = subprocess.run(
        [sys.executable, __file__, str(project)], cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_CURRENT_TEST": "test_one.py::test_one[0] (call)"},
    )  # fmt: skip
    if completed.returncode:
        sys.exit(f"benchmark: the plugin did not replay: {completed.stderr[-500:]}")
    more, floor = json.loads(completed.stdout)
    result = f"{more * 1e6:+.0f} µs a call, goal {GOAL_US:.0f}"
    return Row("openai under the plugin", more + floor, floor, "canned transport", GOAL_US / more / 1e6, result,
               more * 1e6 <= GOAL_US)  # fmt: skip


def replay_calls(project: str) -> tuple[float, float]:
    """Seconds of CPU that the gate of a suite adds to a call, and those of the same call without it."""
    from traceforge.config import load_config
    from traceforge.snapshots.gate.suite_process import SuiteProcess
    from traceforge.snapshots.tree.approved_calls import build_recordings

    suite = SuiteProcess(load_config(project), "test")
    numbers = [number % SNAPSHOTS[0] for number in range(CALLS)]
    suite.start()
    try:
        (answer, *_) = [
            recording.source.load_response()
            for recording in build_recordings(suite.snapshots.approved_calls, suite.snapshots.keys)
        ]
        clients = SdkClients(answer, TEXT, LOCAL_ADDRESS)
        cost = clients.compare(suite.snapshots.player, numbers, temperature=0, seed=7, max_tokens=9)
    finally:
        observations = suite.stop()
    if observations.missed_scopes or observations.replayed != (ROUNDS + 1) * CALLS:
        sys.exit(f"benchmark: {observations.replayed} calls were replayed, missed in: {observations.missed_scopes}")
    return cost


def run_row(title: str, project: Path, goal_ms: float) -> Row:
    """A run with the plugin against one without, alternating."""
    mine: list[float] = []
    theirs: list[float] = []
    allowed = ["--traceforge-allow-unused"]
    for number in range(RUN_ROUNDS + 1):
        for options, times in ((allowed, mine), (["-p", "no:traceforge"], theirs)):
            spent = cpu_of([sys.executable, *PYTEST, *options], project)
            if number:
                times.append(spent)
    added = statistics.median(m - t for m, t in zip(mine, theirs, strict=True))
    result = f"{added * 1e3:+.0f} ms a run, goal {goal_ms:.0f}"
    met = added * 1e3 <= goal_ms
    return AddedTimeRow(
        title, statistics.median(mine), statistics.median(theirs), "-p no:traceforge", 0.0, result, met
    )


def cpu_of(command: list[str], folder: Path) -> float:
    """Seconds of CPU of a command that must succeed. Bytecode is cached, as for an installed package."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    completed = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if completed.returncode:
        sys.exit(f"benchmark: pytest did not run: {completed.stdout[-500:]}{completed.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print(json.dumps(replay_calls(sys.argv[1])))
