"""Replay a Model IO recording in place of a model.

The n-th call with a prompt gets the n-th recorded answer to it. Every rule of the recording is checked first. A
prompt that was not recorded, or was recorded fewer times, is an error and never an empty or repeated answer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self, cast

from traceforge.canon import JSON, Digest, JSONObject, parse_json
from traceforge.errors import InvalidFile, NotJSON, PromptNotRecorded, UnusedInteractions
from traceforge.files import read_file
from traceforge.modelio.adapter import Completion, Context, Stream, stream_as_one_text
from traceforge.modelio.prompt import Prompt, default_redactor, hash_prompt, hash_redacted_prompt, redact_prompt
from traceforge.modelio.recording_verifier import check_session, read_session
from traceforge.redact.redactor import Redactor
from traceforge.replay.unmatched import find_nearest_value


class InteractionQueue:
    """The interactions of a recording that are not used yet. Safe to use from several threads."""

    def __init__(self, session: JSONObject, *, sequential: bool = False) -> None:
        items = cast("list[JSONObject]", session["interactions"])
        self._hashes = [Digest(str(item["prompt_hash"])) for item in items]
        self._completions = [_read_completion(item) for item in items]
        self._used = bytearray(len(items))
        self._sequential = sequential
        self._pending: dict[str, list[int]] = {}  # by prompt hash, unused interactions; the next one is last
        for i in range(len(items) - 1, -1, -1):
            self._pending.setdefault(self._hashes[i], []).append(i)
        self._position = 0  # the position of the next call
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._completions)

    def take_next(self, prompt_hash: str) -> tuple[int, Completion | None]:
        """The position of this call, and its answer; None where there is none."""
        with self._lock:
            position = self._position
            if self._sequential:
                if position >= len(self._hashes) or self._hashes[position] != prompt_hash:
                    return position, None
                index = position
            else:
                pending = self._pending.get(prompt_hash)
                if not pending:
                    self._position += 1
                    return position, None
                index = pending.pop()
            self._position += 1
            self._used[index] = 1
        return position, self._completions[index]

    def take_first_match(self, hashes: Iterable[str]) -> tuple[int, Completion] | None:
        """The next unused interaction of the first hash that has one, and its number."""
        with self._lock:
            self._position += 1
            for prompt_hash in hashes:
                pending = self._pending.get(prompt_hash)
                if pending:
                    index = pending.pop()
                    self._used[index] = 1
                    return index, self._completions[index]
        return None

    def explain_no_match(self, prompt_hash: str) -> str:
        """Why the recording has no answer for a prompt."""
        times = self._hashes.count(Digest(prompt_hash))
        if self._sequential and self._position < len(self._hashes):
            return f"and answer {self._position + 1} of the recording is for {self._hashes[self._position]}"
        if self._sequential:
            return f"and the recording ends after {len(self._hashes)} interactions"
        if times:
            return f"which was recorded {times} times, and each answer was used"
        return "which was not recorded"

    def unused(self) -> list[int]:
        """The numbers of the interactions that were not used."""
        return [i for i, used in enumerate(self._used) if not used]

    def prompt_hash_at(self, i: int) -> Digest:
        """The prompt hash of an interaction."""
        return self._hashes[i]


class ReplayAdapter:
    """Answers from a recording, by the hash of a prompt and its occurrence.

    `sequential` also requires the order of the recording. With `all_used`, the end of a `with` block fails if an
    interaction was not used. `prompts` are those of the session, if they are known from its traces: the error for a
    prompt that was not recorded then names the nearest one, and what differs.

    Raises:
        InvalidFile: the recording breaks a rule; nothing of it is replayed.
    """

    recording_mode = "replay"  # for a recording of these answers, which are not from live calls

    def __init__(
        self,
        session: JSONObject,
        *,
        sequential: bool = False,
        all_used: bool = False,
        redactor: Redactor | None = None,
        prompts: Iterable[Prompt] = (),
    ) -> None:
        self._queue = InteractionQueue(check_session(session), sequential=sequential)
        self._all_used = all_used
        self._redactor = redactor if redactor is not None else default_redactor()
        self._known_prompts = {
            hash_redacted_prompt(redacted): redacted
            for redacted in (redact_prompt(prompt, self._redactor) for prompt in prompts)
        }
        self.adapter_id = str(session["adapter_id"])
        self.model_id = str(session["model_id"])

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        sequential: bool = False,
        all_used: bool = False,
        redactor: Redactor | None = None,
        prompts: Iterable[Prompt] = (),
    ) -> Self:
        """Replay the recording at a path.

        Raises:
            InvalidFile: it breaks a rule; nothing of it is replayed.
            NotJSON: it is not JSON.
            CannotRead: it cannot be read.
        """
        name = os.fspath(path)
        try:
            session = cast("JSONObject", parse_json(read_file(name)))
            return cls(session, sequential=sequential, all_used=all_used, redactor=redactor, prompts=prompts)
        except (InvalidFile, NotJSON) as exc:
            raise exc.in_file(name) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._all_used:
            self.check_used()

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """The recorded answer.

        Raises:
            PromptNotRecorded: the prompt was not recorded, or all its answers were used.
        """
        prompt_hash = hash_prompt(prompt, self._redactor)
        position, answer = self._queue.take_next(prompt_hash)
        if answer is None:
            raise self._not_recorded_error(position, prompt_hash, prompt)
        return answer

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """The recorded answer as one text: a recording does not store the texts of a stream."""
        answer = self.complete(prompt, context)  # Fail when the call is made, not when its first text is read.
        return Stream(stream_as_one_text(lambda: answer))

    @property
    def unused(self) -> list[int]:
        """The numbers of the interactions that were not used."""
        return self._queue.unused()

    def check_used(self) -> None:
        """Check that every interaction was used.

        Raises:
            UnusedInteractions: some were not used.
        """
        unused = self.unused
        if unused:
            raise UnusedInteractions(unused, len(self._queue))

    def _not_recorded_error(self, position: int, prompt_hash: Digest, prompt: Prompt) -> PromptNotRecorded:
        unused = [self._queue.prompt_hash_at(i) for i in self.unused]
        nearest = self._describe_nearest(prompt, unused)
        return PromptNotRecorded(position, prompt_hash, self._queue.explain_no_match(prompt_hash), unused, nearest)

    def _describe_nearest(self, prompt: Prompt, unused: list[Digest]) -> str:
        candidates: list[tuple[str, JSON]] = [
            (prompt_hash, self._known_prompts[prompt_hash])
            for prompt_hash in unused
            if prompt_hash in self._known_prompts
        ]
        if not candidates:
            return ""
        name, differences = find_nearest_value(redact_prompt(prompt, self._redactor), candidates)
        explanation = "; ".join(
            f"{difference.path}: recorded {difference.recorded}, sent {difference.live}" for difference in differences
        )
        return f"the nearest of them is {name}, which differs at {explanation}"


def load_session(path: str | os.PathLike[str]) -> JSONObject:
    """Read a valid recording; errors name the file.

    Raises:
        InvalidFile, NotJSON, CannotRead: it is not a valid recording, or not readable.
    """
    name = os.fspath(path)
    try:
        return read_session(read_file(name))
    except (InvalidFile, NotJSON) as exc:
        raise exc.in_file(name) from None


def _read_completion(item: JSONObject) -> Completion:
    token_counts = (_whole_number(item.get(name)) for name in ("tokens_input", "tokens_output"))
    return Completion(str(item["response_content"]), *token_counts)


def _whole_number(value: JSON) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
