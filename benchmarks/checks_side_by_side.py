"""One example in three tools: three questions, two assertions each. Prints lines and seconds, as a table.

    .venv/bin/python benchmarks/checks_side_by_side.py --promptfoo BIN/promptfoo --python BIN/python [--rounds N]

The model is the model server of this project, on loopback, so that the seconds are those of the tools. `--python` is
one that has `pydantic-evals` and `openai`. Lines are those of the files in side_by_side, without blank ones.
Each command runs in turn, and its median counts. A tool that fails ends the comparison.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXAMPLES = Path(__file__).parent / "side_by_side"
CHECK_RUN = [sys.executable, "-m", "traceforge", "check", "run"]


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a model server that ends with the context."""
    command = [sys.executable, "-u", "-m", "traceforge.model_server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def main() -> None:
    """Run every tool in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--promptfoo", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    promptfoo = [os.path.abspath(options.promptfoo), "eval", "--no-cache", "--no-write", "--no-table"]
    commands = {
        "TraceForge, recorded answers": (".ai-checks/capitals.yaml", CHECK_RUN),
        "TraceForge, `--live`": (".ai-checks/capitals.yaml", [*CHECK_RUN, "--live", "--yes"]),
        "promptfoo": ("promptfooconfig.yaml", promptfoo),
        "pydantic-evals": ("capitals.py", [os.path.abspath(options.python), "capitals.py"]),
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, model_server() as address:
        folder = Path(name) / "example"
        shutil.copytree(EXAMPLES, folder)
        environ = make_environment(address, Path(name))
        run([*CHECK_RUN, "--live", "--yes"], folder, environ)  # records the answers
        seconds: dict[str, list[float]] = {tool: [] for tool in commands}
        for _ in range(options.rounds):
            for tool, (_, command) in commands.items():
                seconds[tool].append(run(command, folder, environ))
    print("| tool | lines | seconds |")
    print("|---|--:|--:|")
    for tool, (file, _) in commands.items():
        print(f"| {tool} | {count_lines(EXAMPLES / file)} | {statistics.median(seconds[tool]):.1f} |")


def make_environment(address: str, home: Path) -> dict[str, str]:
    """The variables of every tool: one model, and no telemetry."""
    return {
        **os.environ,
        "HOME": str(home),
        "OPENAI_API_KEY": "sk-not-a-real-key-000000000000",
        "OPENAI_BASE_URL": f"{address}/v1",
        "TRACEFORGE_UPSTREAM_OPENAI": address,
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
    }


def run(command: list[str], folder: Path, environ: dict[str, str]) -> float:
    """The seconds of a command; ends the program where it fails."""
    start = time.perf_counter()
    ran = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return time.perf_counter() - start


def count_lines(file: Path) -> int:
    """The lines that somebody writes."""
    return sum(bool(line.strip()) for line in file.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
