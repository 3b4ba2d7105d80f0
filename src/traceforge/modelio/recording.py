"""Recording: whatever an adapter answers is kept, and proves itself afterwards.

In: an adapter, and calls of it from any number of threads. Out: a recording in which interactions stand in the order
in which their calls began. Never: a prompt on the disk, a secret in a hash, an answer of half a stream, or a
recording that breaks a limit of its format: what would is refused, and what was recorded before stays valid.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Self

from traceforge.canon import Digest, JSONObject, digest_bytes, encode_utf8
from traceforge.clock import now_text
from traceforge.errors import RecordingFull
from traceforge.modelio.adapter import Adapter, Completion, Context, Stream, redact_content
from traceforge.modelio.prompt import Prompt, default_redactor, hash_prompt
from traceforge.modelio.recording_format import INTERACTIONS_MAX, RESPONSE_BYTES_MAX, TOTAL_BYTES_MAX
from traceforge.modelio.recording_journal import JournalHeader, RecordingJournal, WrittenRecording
from traceforge.redact.redactor import Redactor

RECORD, REPLAY = "record", "replay"


class RecordingSession:
    """A recording that is being made. Use it with `with`: its file is there when the block ends.

    `adapter` answers as the one that was given, and records. Every answer it has given survives the end of the
    process, however that comes: `traceforge modelio recover` makes the recording then.

    Raises:
        PathInUse: a recording is being made at this path, or one was cut short there.
        CannotWrite: the folder is missing, full, or not ours to write.
    """

    def __init__(
        self, path: str | os.PathLike[str], adapter: Adapter, *, redactor: Redactor | None = None, mode: str = ""
    ) -> None:
        self._redactor = redactor if redactor is not None else default_redactor()
        self._lock = threading.Lock()
        self._numbered_calls = 0  # calls that were numbered
        self._open_calls = 0  # of them, those that are being made
        self._saved_count = 0
        self._response_bytes = 0
        self._written: WrittenRecording | None = None
        recording_mode = mode or getattr(adapter, "recording_mode", RECORD)
        head = JournalHeader(adapter.adapter_id, adapter.model_id, recording_mode, now_text())
        self._journal = RecordingJournal.create(os.fspath(path), head)
        self.adapter = RecordingAdapter(adapter, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> WrittenRecording:
        """Write the recording; doing it twice is harmless.

        Raises:
            CannotWrite: it cannot be written; what was recorded is still in the journal.
        """
        with self._lock:
            if self._written is None:
                self._written = self._journal.finish(now_text())
            return self._written

    def discard(self) -> None:
        """Write nothing, and leave nothing behind."""
        self._journal.discard()

    @property
    def model_io_hash(self) -> Digest:
        """The name of what was recorded.

        Raises:
            ValueError: it is not closed.
        """
        if self._written is None:
            raise ValueError("a recording has its hash when it is closed")
        return self._written.model_io_hash

    def reserve_call(self, prompt: Prompt) -> ReservedCall:
        """A call begins; this gives it its place.

        Raises:
            RecordingFull: no interaction may follow. Nobody was asked.
        """
        return self.reserve_hashed_call(hash_prompt(prompt, self._redactor))

    def reserve_hashed_call(self, prompt_hash: Digest) -> ReservedCall:
        """The same for a prompt that only its hash is known of."""
        with self._lock:
            self._check_can_add()
            n = self._numbered_calls
            self._numbered_calls += 1
        return ReservedCall(self, n, prompt_hash)

    def start_call(self) -> None:
        """A call that has its place is about to be made.

        Raises:
            RecordingFull: others have taken the last room meanwhile. Nobody was asked.
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
        """May a response of so many bytes follow?

        Raises:
            RecordingFull: it may not.
        """
        if size > RESPONSE_BYTES_MAX:
            raise RecordingFull(f"a response has more than {RESPONSE_BYTES_MAX} bytes (MI11)")
        if self._response_bytes + size > TOTAL_BYTES_MAX:
            raise RecordingFull(f"the responses of a recording would have more than {TOTAL_BYTES_MAX} bytes (MI11)")

    def save_interaction(self, n: int, prompt_hash: Digest, completion: Completion, latency_ms: float) -> None:
        """A call is over, and its answer is whole."""
        data = encode_utf8(redact_content(completion.text, self._redactor))
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
                raise ValueError("the recording was closed while a call was made")
            self.check_response_size(len(data))
            self._journal.add(n, interaction)
            self._response_bytes += len(data)
            self._saved_count += 1

    def end_call(self) -> None:
        """A call is over, however it went."""
        with self._lock:
            self._open_calls -= 1


class ReservedCall:
    """One call that has its place in a recording. It is kept only if it is `done`."""

    def __init__(self, session: RecordingSession, n: int, prompt_hash: Digest) -> None:
        self._session = session
        self._n = n
        self._prompt_hash = prompt_hash
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
        """The answer is whole: keep it. How long it took is measured where it is not known.

        Raises:
            RecordingFull: it is longer than a recording may hold.
            CannotWrite: there is no room on the disk.
        """
        if latency_ms is None:
            latency_ms = (time.perf_counter() - self._started_at) * 1000
        self._session.save_interaction(self._n, self._prompt_hash, completion, latency_ms)


class RecordingAdapter:
    """Answers as the adapter it wraps, and keeps every answer before it gives it."""

    def __init__(self, inner: Adapter, session: RecordingSession) -> None:
        self._inner = inner
        self._session = session
        self.adapter_id = inner.adapter_id
        self.model_id = inner.model_id

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """Ask, keep the answer, give it.

        Raises:
            RecordingFull: the recording may not hold it. Where that is known before, nobody is asked.
        """
        with self._session.reserve_call(prompt) as call:
            answer = self._inner.complete(prompt, context)
            call.save(answer)
        return answer

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Ask, hand the answer on as it comes, and keep its full text when it is whole.

        A stream that nobody reads to its end is not kept: nobody knows what would have followed.

        Raises:
            RecordingFull: as soon as the text is longer than the recording may hold.
        """
        call = self._session.reserve_call(prompt)  # Its place is that of the call, not of the first piece.
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


def recover_recording(path: str | os.PathLike[str]) -> WrittenRecording:
    """Make the recording of what a process had recorded that was killed.

    Raises:
        PathInUse: the process still records.
        InvalidFile: the journal was changed.
        CannotRead: there is none.
        CannotWrite: the recording cannot be written; the journal stays.
    """
    journal = RecordingJournal.reopen(os.fspath(path))
    return journal.finish()
