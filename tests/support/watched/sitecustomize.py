"""Put on PYTHONPATH, it notes every file that a process opens to write, and every log record, in WATCHED."""

from __future__ import annotations

import logging
import os
import sys

_NOTES = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CHANGES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "sqlite3.connect", "tempfile.mkstemp",
            "subprocess.Popen", "os.exec", "os.posix_spawn", "syslog.syslog", "shutil.copyfile")  # fmt: skip


def _note(text: str) -> None:
    os.write(_NOTES, f"{text}\n".encode("utf-8", "backslashreplace"))


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        path, mode, flags = arguments
        if (isinstance(flags, int) and flags & _WRITING) or (isinstance(mode, str) and set(mode) & set("wax+")):
            _note(f"OPEN {path!r} {mode!r} {flags!r}")
    elif event in _CHANGES:
        _note(f"CHANGE {event} {arguments!r}")


class _Records(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Note it, with everything it holds."""
        _note(f"LOG {record.name} {record.getMessage()} {record.__dict__!r}")


logging.root.setLevel(logging.NOTSET)
logging.root.addHandler(_Records())
sys.addaudithook(_hook)
_note("WATCHING")
