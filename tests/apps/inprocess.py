"""Run a program inside `traceforge.capture()`, as its author would: inprocess.py PROGRAM.

PATHS are folders to import TraceForge from where it is not installed; they come last in the path. CAPTURE "no" runs
the program without TraceForge, "replay" inside `traceforge.replay()`.
"""

import os
import runpy
import sys

sys.path += filter(None, os.environ.get("PATHS", "").split(os.pathsep))

import traceforge

if os.environ.get("CAPTURE") == "no":
    runpy.run_path(sys.argv[1], run_name="__main__")
elif os.environ.get("CAPTURE") == "replay":
    with traceforge.replay() as replayed:
        runpy.run_path(sys.argv[1], run_name="__main__")
    print(f"played {replayed.played}", file=sys.stderr)
else:
    with traceforge.capture() as captured:
        runpy.run_path(sys.argv[1], run_name="__main__")
    assert (0, 0, 0) == (captured.open, captured.lost, captured.unknown), (
        captured.open,
        captured.lost,
        captured.unknown,
    )
