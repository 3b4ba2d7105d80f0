"""Every error TraceForge raises on purpose.

    TraceForgeError                TF000
    ├── NotJSON                    TF101  the text is not JSON
    ├── NotCanonical               TF102  the value has no exact text
    ├── InvalidFile                TF103  JSON, but not what its format says
    ├── CannotRead                 TF201  a file that cannot be read
    ├── CannotWrite                TF202  a file or a stream that cannot be written
    ├── NotFound                   TF203  nothing of that name, or several
    ├── PathInUse                  TF204  somebody else is writing here
    ├── BrokenJournal              TF205  an approval that was cut short and cannot be finished
    ├── CannotSign                 TF206  a signature that cannot be made
    ├── RecordingFull              TF207  a recording that would break a limit of its format
    ├── InvalidConfig              TF401  a configuration that cannot be used
    ├── MissingExtra               TF402  a part of TraceForge that is not installed
    ├── CannotListen               TF501  an address that a server cannot have
    ├── CannotStart                TF502  a command that cannot be started
    ├── ProviderFailed             TF503  a model that gave an adapter no answer
    ├── CallNotRecorded            TF601  a call that nothing recorded answers
    ├── PromptNotRecorded          TF602  a prompt that a recording does not answer
    ├── UnusedInteractions         TF603  answers of a recording that nobody asked for
    ├── CannotApprove              TF701  a pending change that cannot be approved
    ├── StoreRefused               TF801  a request that the context store does not carry out
    │   ├── BranchConflict         TF802  a branch that has moved on
    │   ├── ContentPurged          TF803  content that was purged
    │   └── InvalidFields          TF805  a request with fields that are wrong or unknown
    ├── StoreUnavailable           TF804  a database or a keyring that cannot be used
    └── InternalError              TF999  a mistake of ours

A code is stable: it is printed, documented in docs/reference/errors.md, and never given a
second meaning. Messages hold paths, positions, digests and types, never a value that could
be a secret: build logs are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Self

from traceforge.findings import IO, PARSE, ExitCode, Finding

PROBLEMS_MAX = 20  # Told in one error; a body may hold ten thousand wrong items.
NAME_CHARACTERS_MAX = 200  # Of a field's name that is given back.


class TraceForgeError(Exception):
    """Base of every error TraceForge raises on purpose."""

    code: ClassVar[str] = "TF000"
    exit_code: ClassVar[ExitCode] = ExitCode.UNCHECKED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def in_file(self, file: str) -> Self:
        """The same error, with the file it happened in named first."""
        self.message = f"{file}: {self.message}"
        self.args = (self.message,)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))


def _rebuild(cls: type[TraceForgeError], state: dict[str, object]) -> TraceForgeError:
    """Rebuild an error that crossed a process border, whatever its constructor takes."""
    error = cls.__new__(cls, state["message"])
    error.__dict__.update(state)
    return error


class NotJSON(TraceForgeError):
    """The bytes are not one JSON document as we read it."""

    code = "TF101"

    def __init__(self, reason: str, *, line: int, column: int, offset: int) -> None:
        super().__init__(
            f"{reason} at line {line} column {column}",
            hint="Repair the file at that place, or restore it from version control.",
        )
        self.reason = reason
        self.line = line
        self.column = column
        self.offset = offset  # in bytes, from 0

    def finding(self, file: str) -> Finding:
        """What a check says about this file."""
        return Finding(file, "", PARSE, f"not JSON: {self.message}", self.hint)


class NotCanonical(TraceForgeError):
    """A value that JSON cannot hold was about to be hashed."""

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
    """A file or folder that cannot be read; nothing is known about what it holds."""

    code = "TF201"

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason

    def finding(self, file: str) -> Finding:
        """What a check says about this file."""
        return Finding(file, "", IO, self.reason, self.hint)


class CannotWrite(TraceForgeError):
    """A file, or the answer itself, cannot be written."""

    code = "TF202"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be written: {reason}", hint="Make room, or write somewhere else.")


class NotFound(TraceForgeError):
    """A name that stands for nothing, or for several things."""

    code = "TF203"


class PathInUse(TraceForgeError):
    """Another process holds what only one may change at a time."""

    code = "TF204"


class BrokenJournal(TraceForgeError):
    """An approval was cut short, and what it left behind is damaged: nothing of it was applied."""

    code = "TF205"

    def __init__(self, path: str, reason: str) -> None:
        hint = f"Remove {path}, see what `git status` says about the snapshots, and approve again."
        super().__init__(f"{path}: {reason}; nothing of it was applied", hint=hint)


class CannotSign(TraceForgeError):
    """Something was to be signed, and could not be."""

    code = "TF206"


class RecordingFull(TraceForgeError):
    """A recording holds as much as its format allows; what would break the limit was not recorded."""

    code = "TF207"

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}; it was not recorded",
            hint="Close this recording, and go on in another file: what it holds so far is valid.",
        )


class InvalidConfig(TraceForgeError):
    """The configuration names something we do not know, or a value that cannot be."""

    code = "TF401"

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = findings[0]
        more = f" (and {len(findings) - 1} more: traceforge config check)" if len(findings) > 1 else ""
        super().__init__(f"{first.file}: {first.message}{more}", hint=first.hint)
        self.findings = findings


class MissingExtra(TraceForgeError):
    """Something was asked for that needs a package which the base install does not bring."""

    code = "TF402"

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(message, hint=f'pip install "traceforge[{extra}]"')


class CannotListen(TraceForgeError):
    """A server cannot have the address it was given."""

    code = "TF501"

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {reason}", hint="Choose another port; --port 0 takes a free one."
        )


class CannotStart(TraceForgeError):
    """The command of `traceforge run` could not be started."""

    code = "TF502"

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command}: {reason}", hint="Name a command that can be run from here, after `--`.")


class FailureKind(StrEnum):
    """Why a model gave no answer."""

    UNREACHABLE = "unreachable"  # no connection
    TIMEOUT = "timeout"  # it did not come in time
    REFUSED = "refused"  # the provider answered, and with an error
    CUT = "cut"  # the connection, or the answer, ended too early
    UNREADABLE = "unreadable"  # it is not what such an endpoint answers with
    EMPTY = "empty"  # it is an answer, and says nothing
    TOO_LARGE = "too_large"  # it is longer than the caller takes
    CLIENT_LEFT = "left"  # the caller wanted no more of it


class ProviderFailed(TraceForgeError):
    """An adapter asked a model and got no answer, or an error.

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
    """A call was made in a replay that nothing recorded answers."""

    code = "TF601"
    exit_code = ExitCode.FINDINGS

    def __init__(self, misses: Sequence[str]) -> None:
        distinct = dict.fromkeys(misses)  # each once, in order
        calls = "1 call" if len(misses) == 1 else f"{len(misses)} calls"
        more = f" (and {len(distinct) - 1} other misses)" if len(distinct) > 1 else ""
        super().__init__(
            f"{calls} in a replay had no answer: {next(iter(distinct), '')}{more}",
            hint="Record the call again, or declare what may differ in match.ignore_paths.",
        )
        self.misses = tuple(misses)


class PromptNotRecorded(TraceForgeError):
    """A prompt was asked that the recording does not answer, or not as often, or not at this place."""

    code = "TF602"
    exit_code = ExitCode.FINDINGS

    def __init__(
        self, position: int, prompt_hash: str, reason: str, unused: Sequence[str], nearest: str = ""
    ) -> None:
        unused_text = f"unused are {', '.join(unused[:3])}" if unused else "no interaction is unused"
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        nearest_text = f"; {nearest}" if nearest else ""
        super().__init__(
            f"call {position} of the replay asked for {prompt_hash}, {reason}; {unused_text}{more}{nearest_text}",
            hint="Record the session again, or ask what was recorded: a prompt is found by its hash alone.",
        )
        self.position = position  # of the call, from 0
        self.prompt_hash = prompt_hash
        self.unused = tuple(unused)
        self.nearest = nearest  # the nearest unused prompt and what differs, where prompts are known


class UnusedInteractions(TraceForgeError):
    """A replay is over, and its recording holds answers that nobody asked for."""

    code = "TF603"
    exit_code = ExitCode.FINDINGS

    def __init__(self, unused: Sequence[int], total: int) -> None:
        shown = ", ".join(map(str, unused[:10])) + (", …" if len(unused) > 10 else "")
        super().__init__(
            f"{len(unused)} of {total} interactions were not asked for: {shown}",
            hint="Record the session again if it asks less now.",
        )
        self.unused = tuple(unused)


class CannotApprove(TraceForgeError):
    """A pending change cannot become a snapshot as it is."""

    code = "TF701"


class StoreRefused(TraceForgeError):
    """The context store does not do what it was asked; nothing was written.

    `status` is the HTTP status that says the same, `reason` a stable word, `param` the field it is about.
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
    """Somebody else appended first. What the branch is now stands in the error; nothing was written."""

    code = "TF802"

    def __init__(self, version: int, head_event_id: str | None) -> None:
        super().__init__(
            f"the branch is at version {version} with head {head_event_id or 'none'}, and not where it was expected",
            reason="branch_version_conflict",
            status=409,
            hint="Read the events that came in between, and append again with this version and head.",
        )
        self.version = version
        self.head_event_id = head_event_id


class ContentPurged(StoreRefused):
    """The content was removed for good, and with it what was made of it."""

    code = "TF803"

    def __init__(self, name: str, receipt_id: str, *, hint: str = "") -> None:
        super().__init__(
            f"{name} was purged: receipt {receipt_id}",
            reason="purged",
            status=410,
            hint=hint or "The receipt says what was removed. Nothing brings it back.",
        )
        self.receipt_id = receipt_id


class InvalidFields(StoreRefused):
    """A request to the context store has fields that are wrong, missing or unknown.

    `problems` has for each its name and what is wrong with it.
    """

    code = "TF805"

    def __init__(self, problems: Sequence[tuple[str, str]], reason: str = "invalid_fields") -> None:
        self.problems = [(name[:NAME_CHARACTERS_MAX], text) for name, text in problems[:PROBLEMS_MAX]]
        text = "; ".join(f"{name}: {text}" if name else text for name, text in self.problems)
        more = f"; and {len(problems) - PROBLEMS_MAX} more" if len(problems) > PROBLEMS_MAX else ""
        super().__init__(
            f"{text}{more}", reason=reason, param=self.problems[0][0] or None, hint="Correct what is named."
        )


class StoreUnavailable(TraceForgeError):
    """The database cannot be reached, is of another version, or the keys that open it are not there.

    `outcome_unknown`: it was lost while a change was committed; the change may be there.
    """

    code = "TF804"

    def __init__(self, message: str, *, hint: str = "", outcome_unknown: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.outcome_unknown = outcome_unknown


class InternalError(TraceForgeError):
    """A mistake in TraceForge itself; --debug shows where."""

    code = "TF999"


def all_errors() -> tuple[type[TraceForgeError], ...]:
    """Every error class with a code of its own, by code: what `traceforge help errors` and the docs test list."""
    classes: list[type[TraceForgeError]] = [TraceForgeError]
    for cls in classes:
        classes.extend(cls.__subclasses__())
    return tuple(sorted({cls for cls in classes if "code" in vars(cls)}, key=lambda cls: cls.code))
