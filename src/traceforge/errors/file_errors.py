"""Errors about files, JSON texts, Git and keys: TF1xx and TF2xx."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Self

from traceforge.errors.base import TraceForgeError
from traceforge.findings import IO, PARSE, ExitCode, Finding

LOST_KEY_HINT = (
    "If nobody has it any more: rm -f .ai-snapshots/match-key.json .ai-tests/match.key, unset TRACEFORGE_MATCH_KEY, "
    'then traceforge record -- COMMAND, and traceforge approve --all --reason "…".'
)
CONFLICT_MARKERS = "conflict markers of a Git merge"
CONFLICT_HINT = "Keep one side: git checkout --ours FILE, or --theirs, or edit the file; then run: traceforge verify"
STDOUT_HINT = "Check where the output of the command goes: the disk, or the program that reads it."

_NO_SPACE_HINT = "Free some space, or choose another path."
_PERMISSION_HINT = "Give your user the permission to write there, or choose another path."
_NO_FOLDER_HINT = "Create the folder first, or choose another path."
_WRITE_HINTS = {
    errno.ENOSPC: _NO_SPACE_HINT,
    errno.EDQUOT: _NO_SPACE_HINT,
    errno.EACCES: _PERMISSION_HINT,
    errno.EPERM: _PERMISSION_HINT,
    errno.EROFS: "Choose another path: this file system is read-only.",
    errno.ENOENT: _NO_FOLDER_HINT,
    errno.ENOTDIR: _NO_FOLDER_HINT,
    errno.EISDIR: "Choose the path of a file; this one is a folder.",
    errno.ELOOP: "Replace the link with a file or folder.",
}


class NotJSON(TraceForgeError):
    """The bytes are not one JSON document. `is_conflict`: they have the conflict markers of a Git merge."""

    code = "TF101"

    def __init__(
        self, reason: str, *, line: int, column: int, offset: int, is_empty: bool = False, is_conflict: bool = False
    ) -> None:
        place = "" if is_empty else f" at line {line}" if is_conflict else f" at line {line} column {column}"
        repair = "Write the file again" if is_empty else "Repair the file at that place"
        hint = CONFLICT_HINT if is_conflict else f"{repair}, or restore it from version control."
        super().__init__(f"{reason}{place}", hint=hint)
        self.is_conflict = is_conflict
        self.reason = reason
        self.line = line
        self.column = column
        self.offset = offset  # in bytes, from 0

    def finding(self, file: str) -> Finding:
        """The finding of a check for this file."""
        message = self.message if self.is_conflict else f"not JSON: {self.message}"
        return Finding(file, "", PARSE, message, self.hint)


class NotCanonical(TraceForgeError):
    """A value that JSON cannot hold was to be hashed."""

    code = "TF102"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason} at {path}", hint="Hash only values that came from JSON text.")
        self.path = path


class InvalidFile(TraceForgeError):
    """The text is JSON and breaks the rules of its format."""

    code = "TF103"
    exit_code = ExitCode.FINDINGS

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = findings[0]
        self._more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        super().__init__(f"{first.message} at {first.path}{self._more}", hint=first.hint)
        self.findings = findings

    def in_file(self, file: str) -> Self:
        """Name the file and the place in it first in the message; returns the error itself."""
        first = self.findings[0]
        place = f"{first.path}: " if first.path else ""
        self.message = f"{place}{first.message}{self._more}"
        return super().in_file(file)


class UnknownVersion(InvalidFile):
    """The file has a version that no TraceForge wrote, or that nothing can be read from any more."""

    code = "TF104"


class CannotRead(TraceForgeError):
    """A file or folder cannot be read, so nothing is known about its content."""

    code = "TF201"

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason

    def finding(self, file: str) -> Finding:
        """The finding of a check for this file."""
        return Finding(file, "", IO, self.reason, self.hint)


class CannotWrite(TraceForgeError):
    """A file, or the output of a command, cannot be written; the hint follows from the system's error."""

    code = "TF202"

    def __init__(self, path: str, cause: OSError | str, *, hint: str = "") -> None:
        if isinstance(cause, OSError):
            reason = (cause.strerror or str(cause)).lower()
            hint = hint or _WRITE_HINTS.get(cause.errno or 0, "Check the disk, or choose another path.")
        else:
            reason = cause
        super().__init__(f"{path} cannot be written: {reason}", hint=hint)


class NotFound(TraceForgeError):
    """No object has this name, or several have it."""

    code = "TF203"


class PathInUse(TraceForgeError):
    """Another process holds the lock on this path, or something exists there already."""

    code = "TF204"


class BrokenJournal(TraceForgeError):
    """An approval was interrupted, and its journal is damaged or not ours, so the rest of it cannot be applied."""

    code = "TF205"

    def __init__(self, path: str, reason: str) -> None:
        hint = f"Remove {path}, check the snapshots with `git status`, and approve again."
        consequence = "the rest of the approval cannot be applied, and some of its files may already be written"
        super().__init__(f"{path}: {reason}; {consequence}", hint=hint)


class CannotSign(TraceForgeError):
    """A signature cannot be made or checked."""

    code = "TF206"


class RecordingFull(TraceForgeError):
    """A recording has reached a limit of its format; the last call was not recorded."""

    code = "TF207"

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}; it was not recorded",
            hint="Close this recording and continue in another file. The recording is valid so far.",
        )


class TrackedState(TraceForgeError):
    """Git tracks files of the state folder, so a commit could decide what they say."""

    code = "TF208"

    def __init__(self, files: Sequence[str]) -> None:
        others = f" and {len(files) - 1} more" if len(files) > 1 else ""
        super().__init__(
            f"Git tracks {files[0]}{others}: what belongs to one machine is not read from a commit",
            hint="Run `git rm -r --cached .ai-tests` and commit, or check out a commit without it.",
        )


class BaseUnavailable(TraceForgeError):
    """The commit that a build is compared with is not in the clone, or what names it cannot be read.

    `fetch` has the arguments of the `git fetch` that brings it; none if fetching does not help.
    """

    code = "TF209"

    def __init__(self, message: str, *, hint: str, fetch: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.fetch = tuple(fetch)


class WrongMatchKey(TraceForgeError):
    """The match key of this machine is not the one under which the calls were recorded."""

    code = "TF210"

    def __init__(self, key_id: str, committed_id: str) -> None:
        message = f"wrong key: the match key here has the id {key_id}, and the project's key is {committed_id}"
        hint = "Ask your team for the key with that id, and set TRACEFORGE_MATCH_KEY or .ai-tests/match.key to it."
        super().__init__(message, hint=f"{hint} {LOST_KEY_HINT}")
