"""Record the answers of an adapter, called from any number of threads.

Interactions are in the order in which their calls began. Never: a prompt on disk, a secret in a hash, an incomplete
answer, or a recording that exceeds a limit of the format: such a call is refused, and the recording stays valid.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Self, cast

from traceforge.canon import JSON, Digest, JSONObject, digest_bytes, encode_utf8
from traceforge.clock import now_text
from traceforge.errors import RecordingFull
from traceforge.modelio.adapter import Adapter, Completion, Context, Stream, redact_content
from traceforge.modelio.prompt import Prompt, default_redactor, hash_prompt
from traceforge.modelio.recording_format import INTERACTIONS_MAX, RESPONSE_BYTES_MAX, TOTAL_BYTES_MAX
from traceforge.modelio.recording_journal import JournalHeader, RecordingJournal, WrittenRecording
from traceforge.redact.redactor import Redactor

RECORD, REPLAY = "record", "replay"


class RecordingSession:
    """A recording in progress. Use it with `with`: the file is written when the block ends.

    `adapter` answers as the given one, and records. Every answer survives a crash of the process: after a crash,
    `traceforge modelio recover` writes the recording. `overwrite` replaces a recording that is already there, when
    this one is closed.

    Raises:
        PathInUse: a file exists at this path, or another recording is in progress or was cut short there.
        CannotWrite: the folder is missing, full, or not writable.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        adapter: Adapter,
        *,
        redactor: Redactor | None = None,
        mode: str = "",
        overwrite: bool = False,
    ) -> None:
        self._redactor = redactor if redactor is not None else default_redactor()
        self._lock = threading.Lock()
        self._numbered_calls = 0  # calls with a number
        self._open_calls = 0  # of these, calls in progress
        self._saved_count = 0
        self._response_bytes = 0
        self._written: WrittenRecording | None = None
        recording_mode = mode or getattr(adapter, "recording_mode", RECORD)
        adapter_id, model_id = map(self._redactor.redact_label, (adapter.adapter_id, adapter.model_id))
        head = JournalHeader(adapter_id, model_id, recording_mode, now_text())
        self._journal = RecordingJournal.create(os.fspath(path), head, overwrite=overwrite)
        self.adapter = RecordingAdapter(adapter, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> WrittenRecording:
        """Write the recording; a second call does nothing.

        Raises:
            PathInUse: another recording is at this path now; the journal keeps what was recorded.
            CannotWrite: it cannot be written; the journal keeps what was recorded.
        """
        with self._lock:
            if self._written is None:
                self._written = self._journal.finish(now_text())
            return self._written

    def discard(self) -> None:
        """Remove the journal without writing a recording."""
        self._journal.discard()

    @property
    def model_io_hash(self) -> Digest:
        """The hash of the recording.

        Raises:
            ValueError: the recording is not closed.
        """
        if self._written is None:
            raise ValueError("the recording has no hash before it is closed")
        return self._written.model_io_hash

    def reserve_call(self, prompt: Prompt) -> ReservedCall:
        """Give a call its number in the recording.

        Raises:
            RecordingFull: the recording is full. The model was not called.
        """
        secrets = self._redactor.redact_json(prompt if isinstance(prompt, str) else cast("JSON", list(prompt))).log
        return self._reserve(hash_prompt(prompt, self._redactor), self._redactor.with_values(secrets))

    def reserve_hashed_call(self, prompt_hash: Digest) -> ReservedCall:
        """As `reserve_call`, for a prompt of which only the hash is known."""
        return self._reserve(prompt_hash, self._redactor)

    def _reserve(self, prompt_hash: Digest, redactor: Redactor) -> ReservedCall:
        with self._lock:
            self._check_can_add()
            n = self._numbered_calls
            self._numbered_calls += 1
        return ReservedCall(self, n, prompt_hash, redactor)

    def start_call(self) -> None:
        """Begin a call that has its number.

        Raises:
            RecordingFull: the recording was filled by other calls meanwhile. The model was not called.
        """
        with self._lock:
            self._check_can_add()
            self._open_calls += 1

    def _check_can_add(self) -> None:
        if self._written is not None:
            raise ValueError("the recording is closed")
        if self._saved_count + self._open_calls >= INTERACTIONS_MAX:
            raise RecordingFull(f"a recording has at most {INTERACTIONS_MAX} interactions (MI4)")
        if self._response_bytes >= TOTAL_BYTES_MAX:
            raise RecordingFull(f"the responses of a recording have at most {TOTAL_BYTES_MAX} bytes (MI11)")

    def check_response_size(self, size: int) -> None:
        """Check that a response of this size fits into the recording.

        Raises:
            RecordingFull: it does not fit.
        """
        if size > RESPONSE_BYTES_MAX:
            raise RecordingFull(f"a response has more than {RESPONSE_BYTES_MAX} bytes (MI11)")
        if self._response_bytes + size > TOTAL_BYTES_MAX:
            raise RecordingFull(f"the responses of a recording would have more than {TOTAL_BYTES_MAX} bytes (MI11)")

    def save_interaction(
        self, n: int, prompt_hash: Digest, redactor: Redactor, completion: Completion, latency_ms: float
    ) -> None:
        """Store the complete answer of a call; `redactor` also removes the secrets of its prompt."""
        data = encode_utf8(redact_content(completion.text, redactor))
        content = data.decode()
        interaction: JSONObject = {
            "prompt_hash": prompt_hash,
            "response_hash": digest_bytes(data),
            "response_content": content,
            "latency_ms": round(latency_ms, 3),
        }
        if completion.tokens_input is not None:
            interaction["tokens_input"] = completion.tokens_input
        if completion.tokens_output is not None:
            interaction["tokens_output"] = completion.tokens_output
        with self._lock:
            if self._written is not None:
                raise ValueError("the recording was closed during a call")
            self.check_response_size(len(data))
            self._journal.add(n, interaction)
            self._response_bytes += len(data)
            self._saved_count += 1

    def end_call(self) -> None:
        """End a call, successful or not."""
        with self._lock:
            self._open_calls -= 1


class ReservedCall:
    """A call with a number in a recording. It is stored only if `save` is called."""

    def __init__(self, session: RecordingSession, n: int, prompt_hash: Digest, redactor: Redactor) -> None:
        self._session = session
        self._n = n
        self._prompt_hash = prompt_hash
        self._redactor = redactor
        self._started_at = 0.0

    def __enter__(self) -> Self:
        self._session.start_call()
        self._started_at = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.end_call()

    def save(self, completion: Completion, latency_ms: float | None = None) -> None:
        """Store the complete answer; the latency is measured where it is not given.

        Raises:
            RecordingFull: the answer is too long for the recording.
            CannotWrite: the disk is full.
        """
        if latency_ms is None:
            latency_ms = (time.perf_counter() - self._started_at) * 1000
        self._session.save_interaction(self._n, self._prompt_hash, self._redactor, completion, latency_ms)


class RecordingAdapter:
    """Calls the adapter that it wraps, and stores every answer before returning it."""

    def __init__(self, inner: Adapter, session: RecordingSession) -> None:
        self._inner = inner
        self._session = session
        self.adapter_id = inner.adapter_id
        self.model_id = inner.model_id

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """Call the model, store the answer, and return it.

        Raises:
            RecordingFull: the recording cannot hold the answer. If it is full already, the model is not called.
        """
        with self._session.reserve_call(prompt) as call:
            answer = self._inner.complete(prompt, context)
            call.save(answer)
        return answer

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Call the model, stream the answer, and store it when it is complete.

        A stream that is not read to its end is not stored.

        Raises:
            RecordingFull: the text is too long for the recording; raised while streaming.
        """
        call = self._session.reserve_call(prompt)  # Numbered by the call, not by its first text.
        return Stream(
            _record_stream(call, lambda: self._inner.stream(prompt, context), self._session.check_response_size)
        )


def _record_stream(
    call: ReservedCall, start_stream: Callable[[], Stream], check_response_size: Callable[[int], None]
) -> Generator[str, None, Completion]:
    size = 0
    with call:
        source = start_stream()
        try:
            for text in source:
                size += len(encode_utf8(text))
                check_response_size(size)
                yield text
        finally:
            source.close()
        call.save(source.completion)
        return source.completion


def recover_recording(path: str | os.PathLike[str], *, overwrite: bool = False) -> WrittenRecording:
    """Write the recording of a process that was killed.

    Raises:
        PathInUse: the process is still running; or another recording is at this path, and `overwrite` is not set.
        InvalidFile: the journal was changed.
        CannotRead: the journal does not exist.
        CannotWrite: the recording cannot be written; the journal stays.
    """
    journal = RecordingJournal.reopen(os.fspath(path), overwrite=overwrite)
    try:
        return journal.finish()
    except BaseException:
        journal.release()
        raise
