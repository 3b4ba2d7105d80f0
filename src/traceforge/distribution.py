"""The name under which TraceForge is installed. The command and the import package are called `traceforge`.

On the Python index, `traceforge` is another project. Everything that tells people or machines what to install takes
the name from here; a test compares it with `pyproject.toml`.
"""

from __future__ import annotations

DISTRIBUTION = "traceforge-gate"  # Also a name of the command: no other package has it (`traceforge_gate.py`).


def install_command(extra: str = "") -> str:
    """The command that installs TraceForge, with an extra if one is named."""
    return f'pip install "{DISTRIBUTION}[{extra}]"' if extra else f"pip install {DISTRIBUTION}"
