"""Every error that TraceForge raises on purpose. `all_errors` lists them.

    TraceForgeError                TF000
    ├── NotJSON                    TF101  a text is not JSON
    ├── NotCanonical               TF102  a value cannot be written as JSON
    ├── InvalidFile                TF103  a file is JSON and breaks the rules of its format
    ├── CannotRead                 TF201  a file cannot be read
    ├── CannotWrite                TF202  a file or a stream cannot be written
    ├── NotFound                   TF203  no object has this name, or several have it
    ├── PathInUse                  TF204  another process writes here, or a file exists already
    ├── BrokenJournal              TF205  an approval was interrupted and cannot be finished
    ├── CannotSign                 TF206  a signature cannot be made or checked
    ├── RecordingFull              TF207  a recording has reached a limit of its format
    ├── TrackedState               TF208  Git tracks files that belong to one machine
    ├── BaseUnavailable            TF209  the commit that a build is compared with is not in the clone
    ├── WrongMatchKey              TF210  the match key here is not that of the project
    ├── InvalidConfig              TF401  the configuration cannot be used
    ├── MissingExtra               TF402  an optional package is not installed
    ├── UntrustedProject           TF403  another user configured the project
    ├── CannotListen               TF501  a server cannot use an address
    ├── CannotStart                TF502  a command cannot be started
    ├── ProviderFailed             TF503  a provider gave no usable answer
    ├── CallNotRecorded            TF601  a call could not be replayed
    ├── PromptNotRecorded          TF602  a recording has no answer for a prompt
    ├── UnusedInteractions         TF603  recorded answers were not used by a replay
    ├── CannotApprove              TF701  a pending change cannot be approved
    ├── StoreRefused               TF801  the context store refused a request
    │   ├── BranchConflict         TF802  another writer appended to the branch first
    │   ├── ContentPurged          TF803  the content was purged
    │   └── InvalidFields          TF805  a request has wrong, missing or unknown fields
    ├── StoreUnavailable           TF804  the database or its keyring cannot be used
    │   └── InvalidStoreAddress    TF806  the address of a store cannot be read
    └── InternalError              TF999  a mistake in TraceForge

A code is stable: it is printed, documented in docs/reference/errors.md, and never gets a second meaning. An exit code
of 1 means that something was found, 2 that an option cannot be used, 3 that something could not be checked. A hint is
something to do. Messages hold paths, positions, digests and types, never a value that could be a secret: build logs
are public.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Self

from traceforge.findings import IO, PARSE, ExitCode, Finding
from traceforge.terminal import escape_text

PROBLEMS_MAX = 20  # Named in one error; a body may hold ten thousand wrong items.
NAME_CHARACTERS_MAX = 200  # Of a field's name in a message.
NOT_REPLAYABLE_HINT = "A new recording does not help: correct what the message names, or do not make this call."
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


class TraceForgeError(Exception):
    """Base of every error that TraceForge raises on purpose."""

    code: ClassVar[str] = "TF000"
    exit_code: ClassVar[ExitCode] = ExitCode.UNCHECKED

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = escape_text(message)  # It may be printed by the application that we run in.
        self.hint = escape_text(hint)
        super().__init__(self.message)

    def in_file(self, file: str) -> Self:
        """Name the file first in the message; returns the error itself."""
        self.message = escape_text(f"{file}: {self.message}")
        self.args = (self.message,)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))


def _rebuild(cls: type[TraceForgeError], state: dict[str, object]) -> TraceForgeError:
    """Unpickle an error without calling its constructor, whose parameters differ from class to class."""
    error = cls.__new__(cls, state["message"])
    error.__dict__.update(state)
    return error


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
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        super().__init__(f"{first.message} at {first.path}{more}", hint=first.hint)
        self.findings = findings


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


class InvalidConfig(TraceForgeError):
    """The configuration has an unknown key or a value that is not allowed."""

    code = "TF401"

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = findings[0]
        more = f" (and {len(findings) - 1} more: traceforge config check)" if len(findings) > 1 else ""
        super().__init__(f"{first.file}: {first.message}{more}", hint=first.hint)
        self.findings = findings


class MissingExtra(TraceForgeError):
    """A command needs a package that the base install does not bring."""

    code = "TF402"

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(message, hint=f'pip install "traceforge[{extra}]"')


class UntrustedProject(TraceForgeError):
    """A file that configures the project belongs to another user."""

    code = "TF403"


class CannotListen(TraceForgeError):
    """A server cannot listen on the address that it was given."""

    code = "TF501"

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {reason}", hint="Choose another port; --port 0 takes a free one."
        )


class CannotStart(TraceForgeError):
    """The command after `--` could not be started."""

    code = "TF502"

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command}: {reason}", hint="Write a command that can be run from this folder after `--`.")


class FailureKind(StrEnum):
    """Why a provider gave no usable answer."""

    UNREACHABLE = "unreachable"  # no connection
    TIMEOUT = "timeout"  # no response in time
    REFUSED = "refused"  # the provider responded with an error
    CUT = "cut"  # the connection or the response ended too early
    UNREADABLE = "unreadable"  # the response is not what this endpoint sends
    EMPTY = "empty"  # the answer is empty
    TOO_LARGE = "too_large"  # the answer is longer than the caller accepts
    CLIENT_LEFT = "left"  # the caller closed the connection


class ProviderFailed(TraceForgeError):
    """A provider gave an adapter no answer, or an error.

    `reason` is the message without the names of provider and model. `status` is the HTTP status, or 0 where no
    response came. `provider_text` is the provider's own error text. It may repeat a prompt or a key, so no message
    contains it: redact it before you show it.
    """

    code = "TF503"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        kind: FailureKind = FailureKind.UNREADABLE,
        reason: str = "",
        status: int = 0,
        provider_text: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.reason = reason
        self.status = status
        self.provider_text = provider_text


class CallNotRecorded(TraceForgeError):
    """A call could not be replayed: it has no recorded answer, or is of a kind that cannot be replayed.

    `misses` explains each call. `can_record`: for one of them at least, a new recording would help.
    """

    code = "TF601"
    exit_code = ExitCode.FINDINGS

    def __init__(self, misses: Sequence[str], *, can_record: bool = True) -> None:
        distinct = dict.fromkeys(misses)  # each once, in order
        calls = "1 call" if len(misses) == 1 else f"{len(misses)} calls"
        more = f" (and {len(distinct) - 1} other requests)" if len(distinct) > 1 else ""
        hint = "Record the call again, or declare what may differ in match.ignore_paths."
        if not can_record:
            hint = NOT_REPLAYABLE_HINT
        super().__init__(f"{calls} could not be replayed: {next(iter(distinct), '')}{more}", hint=hint)
        self.misses = tuple(misses)


class PromptNotRecorded(TraceForgeError):
    """The recording has no answer for a prompt, or fewer answers than calls, or none at this position."""

    code = "TF602"
    exit_code = ExitCode.FINDINGS

    def __init__(
        self, position: int, prompt_hash: str, reason: str, unused: Sequence[str], nearest: str = ""
    ) -> None:
        unused_text = f"unused prompts: {', '.join(unused[:3])}" if unused else "every recorded answer was used"
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        nearest_text = f"; {nearest}" if nearest else ""
        super().__init__(
            f"call {position + 1} of the replay sent prompt {prompt_hash}, {reason}; "
            f"{unused_text}{more}{nearest_text}",
            hint="Record the session again, or send a recorded prompt: prompts are matched by their hash.",
        )
        self.position = position  # of the call, from 0
        self.prompt_hash = prompt_hash
        self.unused = tuple(unused)
        self.nearest = nearest  # the nearest unused prompt and what differs, where prompts are known


class UnusedInteractions(TraceForgeError):
    """A replay ended, and some answers of its recording were not used."""

    code = "TF603"
    exit_code = ExitCode.FINDINGS

    def __init__(self, unused: Sequence[int], total: int) -> None:
        numbers = ", ".join(str(position + 1) for position in unused[:10]) + (", …" if len(unused) > 10 else "")
        super().__init__(
            f"{len(unused)} of {total} recorded answers were not used: {'answer' if len(unused) == 1 else 'answers'} "
            f"{numbers}",
            hint="Record the session again if it makes fewer calls now.",
        )
        self.unused = tuple(unused)  # positions in the recording, from 0


class CannotApprove(TraceForgeError):
    """A pending change cannot become a snapshot."""

    code = "TF701"


class StoreRefused(TraceForgeError):
    """The context store refused a request; nothing was written.

    `status` is the HTTP status of the response, `reason` a stable error code, `param` the field in question.
    """

    code = "TF801"

    def __init__(
        self, message: str, *, reason: str, status: int = 400, param: str | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.status = status
        self.param = param


class BranchConflict(StoreRefused):
    """Another writer appended first. The error has the current version and head; nothing was written."""

    code = "TF802"

    def __init__(self, version: int, head_event_id: str | None, *, expected: str) -> None:
        super().__init__(
            f"the branch is at version {version} with head {head_event_id or 'none'}; expected: {expected}",
            reason="branch_version_conflict",
            status=409,
            hint="Read the events in between, and append again with this version and head.",
        )
        self.version = version
        self.head_event_id = head_event_id


class ContentPurged(StoreRefused):
    """The content, and what was derived from it, was removed for good."""

    code = "TF803"

    def __init__(self, name: str, receipt_id: str, *, hint: str = "") -> None:
        super().__init__(
            f"{name} was purged: receipt {receipt_id}",
            reason="purged",
            status=410,
            hint=hint or "The receipt lists what was removed. It cannot be restored.",
        )
        self.receipt_id = receipt_id


class InvalidFields(StoreRefused):
    """A request to the context store has fields that are wrong, missing or unknown.

    `problems` has the name of each and what is wrong with it.
    """

    code = "TF805"

    def __init__(self, problems: Sequence[tuple[str, str]], reason: str = "invalid_fields") -> None:
        self.problems = [(name[:NAME_CHARACTERS_MAX], text) for name, text in problems[:PROBLEMS_MAX]]
        text = "; ".join(f"{name}: {text}" if name else text for name, text in self.problems)
        more = f"; and {len(problems) - PROBLEMS_MAX} more" if len(problems) > PROBLEMS_MAX else ""
        super().__init__(
            f"{text}{more}", reason=reason, param=self.problems[0][0] or None, hint="Correct the named fields."
        )


class StoreUnavailable(TraceForgeError):
    """The database cannot be reached or has another version, or its keyring is missing.

    `outcome_unknown`: the connection was lost during a commit; the change may have been stored.
    """

    code = "TF804"

    def __init__(self, message: str, *, hint: str = "", outcome_unknown: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.outcome_unknown = outcome_unknown


class InvalidStoreAddress(StoreUnavailable):
    """The URL or the path of a context store cannot be read: a usage error. The message holds nothing of it."""

    code = "TF806"
    exit_code = ExitCode.USAGE


class InternalError(TraceForgeError):
    """A mistake in TraceForge itself; --debug shows where."""

    code = "TF999"


def all_errors() -> tuple[type[TraceForgeError], ...]:
    """Every error class that has a code of its own, sorted by code."""
    classes: list[type[TraceForgeError]] = [TraceForgeError]
    for cls in classes:
        classes.extend(cls.__subclasses__())
    return tuple(sorted({cls for cls in classes if "code" in vars(cls)}, key=lambda cls: cls.code))
