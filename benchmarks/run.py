"""`make bench`: every benchmark, as ratios. Exit 1 where a goal is missed or a peer did not run.

Arguments name the benchmarks to run; `--quick` shortens the loads.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness import QUICK

QUICK_OPTION = "--quick"
BENCHMARKS = (
    "canon",
    "verify",
    "modelio",
    "redact",
    "wire",
    "traces",
    "inprocess",
    "mcp",
    "proxy",
    "replay",
    "playback",
    "gate",
    "plugin",
    "checks",
    "context",
    "chat",
    "ui",
)


def main(names: list[str]) -> int:
    """Run the benchmarks that were named, or all."""
    if QUICK_OPTION in names:
        names = [name for name in names if name != QUICK_OPTION]
        os.environ[QUICK] = "1"
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"benchmark: there is no {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    missed = 0
    for name in names or BENCHMARKS:
        try:
            benchmark = import_module(f"bench_{name}")
        except ImportError as exc:
            sys.exit(f"benchmark: a peer of {name} did not run: {exc}")
        print(f"{name}: {benchmark.__doc__}", flush=True)
        for row in benchmark.rows():
            print(row.text(), flush=True)
            missed += not row.met
    print(f"\n{missed} goals missed" if missed else "\nevery goal met")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
