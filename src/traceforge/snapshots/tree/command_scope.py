"""The scope of a command, as snapshots store it.

In: the words of a command. Out: a scope without secrets. A module of its own, because it needs the redactor, which a
run of the pytest plugin without model calls does not load.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceforge.config import LoadedConfig
from traceforge.redact.redactor import Redactor
from traceforge.snapshots.tree.run_scopes import command_scope


def redacted_scope(loaded: LoadedConfig, command: Sequence[str]) -> str:
    """The scope of a command, which is stored in snapshots and may hold a secret."""
    return command_scope(command, Redactor.from_config(loaded.config).redact_command)
