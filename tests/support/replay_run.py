"""Run a command with its model calls answered from the traces of the current folder.

    python -m support.replay_run COMMAND...

The exit code is the command's, or 1 if a call had no recording.
"""

from __future__ import annotations

import os
import sys

from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.command_runner import run_command
from traceforge.config import load_config
from traceforge.replay.trace_recordings import open_trace_player


def main() -> int:
    loaded = load_config(os.getcwd())
    player = open_trace_player(loaded).player
    sink = MemoryRecorder()
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = run_command(sys.argv[1:], loaded, sink, environ, replay=ReplayResponder(player))
    for miss in player.unmatched:
        print(miss.message, file=sys.stderr)  # noqa: T201
    print(f"played {result.replayed}, recorded {len(sink.exchanges)}, {result.problems}", file=sys.stderr)  # noqa: T201
    return result.exit_code or int(bool(player.unmatched) or bool(sink.exchanges) or bool(result.problems))


if __name__ == "__main__":
    sys.exit(main())
