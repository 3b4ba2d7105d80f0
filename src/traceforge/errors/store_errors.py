"""Errors of the context store: TF8xx."""

from __future__ import annotations

from collections.abc import Sequence

from traceforge.errors.base import TraceForgeError
from traceforge.findings import ExitCode

PROBLEMS_MAX = 20  # Named in one error; a body may hold ten thousand wrong items.
NAME_CHARACTERS_MAX = 200  # Of a field's name in a message.


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
