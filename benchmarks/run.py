"""`make bench`: every benchmark, as ratios. Exit 1 where a goal is missed; arguments name the ones to run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bench_canon
import bench_modelio
import bench_redact
import bench_verify
import bench_wire

BENCHMARKS = {
    "canon": bench_canon.rows,
    "verify": bench_verify.rows,
    "modelio": bench_modelio.rows,
    "redact": bench_redact.rows,
    "wire": bench_wire.rows,
}


def main(names: list[str]) -> int:
    """Run the benchmarks that were named, or all."""
    missed = 0
    for name, rows in BENCHMARKS.items():
        if names and name not in names:
            continue
        print(f"{name}: {sys.modules[f'bench_{name}'].__doc__}", flush=True)
        for row in rows():
            print(row.text(), flush=True)
            missed += not row.met
    print(f"\n{missed} goals missed" if missed else "\nevery goal met")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
