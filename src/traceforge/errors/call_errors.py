"""Errors of servers, commands, providers and replays: TF5xx and TF6xx."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from traceforge.errors.base import TraceForgeError
from traceforge.findings import ExitCode

NOT_REPLAYABLE_HINT = "A new recording does not help: correct what the message names, or do not make this call."


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
