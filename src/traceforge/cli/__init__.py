"""The command line: one module a command group, no logic of its own."""

from __future__ import annotations

import traceforge_gate


def main() -> None:
    """What the command of the other project called traceforge calls, once it has overwritten ours.

    Our files of this name win over its own, so that it gets here and can be told what is wrong.
    """
    traceforge_gate.main()
