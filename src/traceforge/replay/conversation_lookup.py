"""Find the recording of a WebSocket that is still open: one that begins with what its client has sent so far.

In: the part of a request that is there, and a library. Out: a recording. Never: counts it as used; the conversation
as a whole is looked up like any request when it ends.

A conversation has thousands of frames. So of an open one, the recordings that begin like it are kept, and only its
next frames are compared with them. Where these cannot be compared alone, or another recording answers, all frames are
looked up again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from traceforge.canon import JSON, exact_canonical_bytes
from traceforge.errors import TraceForgeError
from traceforge.replay.compared_frames import list_client_frames
from traceforge.replay.library import Library, Recording
from traceforge.replay.next_frames import NextFrames
from traceforge.replay.request_key import KeyedRequest, KeyFields

CONVERSATIONS_MAX = 1024  # A process that was killed ends none. Beyond, the frames of the oldest are compared again.


class _OpenConversation(Struct):
    """A conversation that goes on, so that each of its frames is compared once."""

    recording: Recording  # that answers it
    candidates: list[Recording]  # that begin with the frames so far
    frames: NextFrames


class OpenConversations:
    """Which recording answers each open conversation. Safe to use from several threads.

    Two equal conversations that are open at the same time are answered from two recordings, if there are two.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenConversation] = {}  # by conversation, oldest first
        self._lock = threading.Lock()

    def choose_recording(
        self, conversation: str, request: KeyedRequest, scope: str, library: Library, follow: Callable[[], NextFrames]
    ) -> Recording | None:
        """The first recording that begins like the request and has not answered; else the last one that begins so.

        `follow` makes what compares the frames that follow those of the request.
        """
        own = list(_find_beginning(request, library.recordings_in_scope(scope)))
        recordings = own or list(_find_beginning(request, library.recordings))
        if not recordings:
            return None
        frames = follow()
        with self._lock:
            chosen = self._choose(conversation, recordings, library)
            self._open.pop(conversation, None)
            while len(self._open) >= CONVERSATIONS_MAX:
                del self._open[next(iter(self._open))]
            self._open[conversation] = _OpenConversation(chosen, recordings, frames)
        return chosen

    def is_as_recorded(self, conversation: str, start: int, body: bytes, library: Library) -> bool:
        """Whether the recording that answers a conversation continues with the frames of a body, the `start`-th and
        those after it. False also where that is not certain: then all frames must be looked up.
        """
        with self._lock:
            state = self._open.get(conversation)
        if state is None or state.frames.count != start or (compared := state.frames.compare(body)) is None:
            return False
        state.candidates = [item for item in state.candidates if _has_frames(item, start, compared.frames)]
        if not state.candidates:
            return False
        with self._lock:
            chosen = self._choose(conversation, state.candidates, library)
        return chosen is state.recording and not (compared.has_redactions and _repeats_request(chosen))

    def _choose(self, conversation: str, candidates: list[Recording], library: Library) -> Recording:
        used_names = {state.recording.name for other, state in self._open.items() if other != conversation}
        free = (item for item in candidates if item.name not in used_names and not library.has_answered(item))
        return next(free, candidates[-1])

    def end(self, conversation: str) -> None:
        with self._lock:
            self._open.pop(conversation, None)


def _has_frames(recording: Recording, start: int, following: list[JSON]) -> bool:
    """Whether a recording has these frames from the `start`-th on."""
    try:
        frames = list_client_frames(recording.source.load_key_fields().body)
    except TraceForgeError:
        return False
    return frames is not None and _is_same(frames[start : start + len(following)], following)


def _repeats_request(recording: Recording) -> bool:
    """Whether the response has values of the request, which are not known before it was sent."""
    try:
        return bool(recording.source.load_response().echoes)
    except TraceForgeError:
        return True


def _find_beginning(request: KeyedRequest, recordings: Iterable[Recording]) -> Iterator[Recording]:
    """The recordings that begin like the request."""
    for recording in recordings:
        try:
            if recording.endpoint == request.endpoint and _begins_with(recording.source.load_key_fields(), request):
                yield recording
        except TraceForgeError:
            continue  # It cannot be read: the conversation as a whole will say so.


def _begins_with(recorded: KeyFields, request: KeyedRequest) -> bool:
    live, frames = request.key_fields, list_client_frames(recorded.body)
    if frames is None or recorded._replace(body=None) != live._replace(body=None):
        return False
    sent = list_client_frames(live.body) or []
    return _is_same(frames[: len(sent)], sent)


def _is_same(recorded: list[JSON], sent: list[JSON]) -> bool:
    """Whether frames are equal as keys are: for Python, `true` is 1."""
    return recorded == sent and exact_canonical_bytes(recorded) == exact_canonical_bytes(sent)
