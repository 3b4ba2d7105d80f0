"""Runs a program as its author would with `traceforge.capture()` around it: inprocess.py PROGRAM.

PATHS are folders to find TraceForge in, behind everything else, where it is not installed. Where CAPTURE is "no",
TraceForge is there and is not used; where it is "replay", calls are answered from what was recorded.
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
    with traceforge.capture() as seen:
        runpy.run_path(sys.argv[1], run_name="__main__")
    assert (0, 0, 0) == (seen.open, seen.lost, seen.unknown), (seen.open, seen.lost, seen.unknown)
