"""Where a run sends its calls, printed by the commands that start one."""

from __future__ import annotations

import os

from traceforge.capture.proxy.effective_upstreams import find_run_upstreams
from traceforge.config import LoadedConfig
from traceforge.terminal import one_line, print_text


def print_upstreams(loaded: LoadedConfig) -> None:
    """Print where a run sends its calls, wherever that is not at the providers' own addresses. Otherwise nothing: the
    terminal is the command's.
    """
    for line in find_run_upstreams(loaded, os.environ).changes:
        print_text(f"traceforge: {one_line(line)}", err=True)
