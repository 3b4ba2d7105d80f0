"""Every benchmark runs: with few rounds and small sizes, so that one that no longer fits the code is found here."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from support.corpus import PROJECT
from support.upstream import ScriptedResponse, upstream
from traceforge.cli.main import cli

FOLDER = PROJECT / "benchmarks"
# For each benchmark the constants that decide how long it takes, and the number of its rows.
SMALL: dict[str, tuple[dict[str, object], int]] = {
    "canon": ({}, 8),
    "chat": ({"TURNS": 1}, 1),
    "checks": ({"CHECKS": 3, "ROUNDS": 1}, 2),
    "context": ({"APPENDS": 2, "BRANCHES": 2, "SHORT_HISTORY": 2, "LONG_HISTORY": 3}, 10),
    "gate": ({"COUNT": 2}, 1),
    "inprocess": ({"CALLS": 2}, 7),
    "mcp": ({"CALLS": 2, "ROUNDS": 1, "PAUSE_S": 0}, 2),
    "modelio": ({"INTERACTIONS": 3, "CALLS": 3}, 3),
    "plugin": ({"RUN_ROUNDS": 1, "SNAPSHOTS": [10, 11]}, 4),
    "redact": ({}, 25),
    "replay": ({"MANY": 20, "LOADED_TRACES": 20, "CALLS": 5, "sdk_replay.COUNTS": [10]}, 11),
    "traces": ({"TRACES": 40}, 4),
    "ui": ({"TRACES": 40, "CHUNKS": 5, "EVENTS": 3, "ROUNDS": 1, "READS": 5, "SCROLLS": 2}, 10),
    "verify": ({"COUNT": 2}, 3),
    "wire": ({}, 6),
}
NEED_OTHER_PROGRAMS = {"playback", "proxy"}  # nginx, wrk and peers; `test_the_proxy_…` below runs our part of them.
RUNS_ONE = f"""
import importlib, json, sys
sys.path.insert(0, {str(FOLDER)!r})
import harness
measure = harness.measure
harness.measure = lambda ours, peer, rounds, loops, clock: measure(ours, peer, 1, 1, clock)
name, sizes = sys.argv[1], json.loads(sys.argv[2])
benchmark = importlib.import_module("bench_" + name)
for constant, value in sizes.items():
    module, _, constant = constant.rpartition(".")
    module = importlib.import_module(module) if module else benchmark
    assert hasattr(module, constant), constant
    setattr(module, constant, value)
if name == "replay":
    importlib.import_module("sdk_replay")._peers = list  # They are installed from the package index.
if name == "wire":
    benchmark._corpus_rows = list  # The tests of the corpus read all of it.
print(json.dumps([row.text() for row in benchmark.rows()]))
"""


def benchmark_names() -> list[str]:
    return sorted(file.stem.removeprefix("bench_") for file in FOLDER.glob("bench_*.py"))


def test_every_benchmark_is_run_here_and_by_make_bench() -> None:
    """A new one is added to `run.py`, and to the sizes above."""
    table = next(
        ast.literal_eval(node.value)
        for node in ast.parse((FOLDER / "run.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BENCHMARKS"
    )

    assert benchmark_names() == sorted(table)
    assert benchmark_names() == sorted({*SMALL, *NEED_OTHER_PROGRAMS})


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_small_run_prints_every_row(name: str, tmp_path: Path) -> None:
    """Whether its goals are met says nothing at this size."""
    sizes, rows = SMALL[name]

    ran = subprocess.run(
        [sys.executable, "-c", RUNS_ONE, name, json.dumps(sizes)], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert 0 == ran.returncode, ran.stderr[-2000:]
    assert rows == len(json.loads(ran.stdout.splitlines()[-1]))


PROXY_CALL = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(FOLDER)!r})
import bench_playback, bench_proxy, proxy_targets
from load import Target, call_once
folder = Path(sys.argv[2])
direct = Target("direct", int(sys.argv[1]))
with proxy_targets.start_traceforge(folder / "ours", direct) as ours:
    call_once(ours)
    proxy_targets.settle(ours)
output = (folder / "ours" / "ours.out").read_text()
with bench_playback.ExitStack() as stack:
    bench_playback._ours(stack, folder / "replayed", direct)
print(json.dumps({{name: bench_proxy._number(output, label) for name, label in bench_proxy._SUMMARY.items()}}))
"""


@pytest.mark.slow
def test_the_proxy_is_started_settles_and_counts_as_its_benchmarks_expect(tmp_path: Path) -> None:
    """They read its metrics, its spool and its last line, which no type checker compares."""
    with upstream() as server:
        server.respond_with(ScriptedResponse([b'{"choices": []}']))
        ran = subprocess.run(
            [sys.executable, "-c", PROXY_CALL, server.url.rpartition(":")[2], str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert 0 == ran.returncode, ran.stderr[-2000:]
    expected = {"calls": 1, "recorded": 1, "lost": 0, "failed": 0, "waiting": 0}
    assert expected == json.loads(ran.stdout.splitlines()[-1])


def written_commands() -> Iterator[tuple[str, list[str]]]:
    """Every list in a benchmark that begins with our command: its place, and its words that are literals."""
    for file in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.List) and node.elts:
                words = [element.value if isinstance(element, ast.Constant) else None for element in node.elts]
                if ast.unparse(node.elts[0]) in ("COMMAND", "TRACEFORGE", "command") and isinstance(words[1], str):
                    yield f"{file.name}:{node.lineno}", [word for word in words[1:] if isinstance(word, str)]
                elif "traceforge" in words:
                    start = words.index("traceforge") + 1
                    yield f"{file.name}:{node.lineno}", [word for word in words[start:] if isinstance(word, str)]


def test_every_command_of_a_benchmark_has_the_options_that_it_is_given() -> None:
    commands = dict(written_commands())

    problems = []
    for place, words in commands.items():
        command: click.Command | None = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            command = command.get_command(click.Context(command), words.pop(0))
        if command is None:
            problems.append(f"{place}: no such command")
            continue
        known = {option for parameter in command.params for option in parameter.opts}
        own = words[: words.index("--")] if "--" in words else words  # Behind it is another program's line.
        unknown = [word for word in own if word.startswith("--") and word not in known]
        problems += [f"{place}: {command.name} has no {option}" for option in unknown]
    assert len(commands) >= 10
    assert [] == problems
