"""No module is loaded once the command of `traceforge test` runs.

In: the names of modules that the judgement and its report may need later. Out: a process that imports nothing from
disk any more, and the names that it wanted to. Never: lets a module that was forgotten pass: the import fails, and
the run is unchecked.

The command runs as the same user, often in the same environment: it can write a `json.py` into a folder from which we
import, or rewrite our own files. What runs outside of the seal, and judges the command, must not execute that.
"""

from __future__ import annotations

import sys
from _imp import is_frozen
from importlib import import_module

from traceforge.wire.dialects import import_dialects

# What is imported late: inside functions, by name, or by the standard library itself.
LATE_MODULES = (
    "traceforge.compare.edit_digest",
    "traceforge.compare.text_diff",
    "traceforge.redact.custom_patterns",
    "traceforge.replay.echoes",
    "traceforge.replay.request_redactor",
    "traceforge.snapshots.tree.tracked_state",
    "traceforge.snapshots.tree.tree_transaction",
    "_strptime",
    "concurrent.futures.thread",
    "difflib",
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.punycode",
    "encodings.utf_16",
    "encodings.utf_16_be",
    "encodings.utf_16_le",
    "encodings.utf_32",
    "encodings.utf_8_sig",
    "traceback",
)
CODECS = "encodings."  # One that is not loaded is unknown, as one that does not exist.


class RefusingFinder:
    """A first finder of `sys.meta_path`; Python asks it for each module that is not loaded yet."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """
        Raises:
            ImportError: the module is not inside the interpreter itself, and would be read from disk.
        """
        if name in sys.builtin_module_names or is_frozen(name):
            return
        if not name.startswith(CODECS):
            self.refused.add(name)
        raise ImportError(f"{name} was not loaded before the command, which may have changed it", name=name)


def refuse_imports() -> RefusingFinder:
    """Load what this process may still need, and nothing from now on."""
    for name in LATE_MODULES:
        import_module(name)
    import_dialects()
    finder = RefusingFinder()
    sys.meta_path.insert(0, finder)
    return finder
