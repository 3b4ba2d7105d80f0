"""A model call of our own, watched like those of any HTTP client.

In: a request for our HTTP client. Out: its response, in chunks as they come; the watcher of this process records the
call, or answers it in a replay. Never: reaches the network where a replay answers.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from traceforge.capture.hook.guarded_call import GuardedCall, decode_headers
from traceforge.capture.hook.in_flight_call import ANSWERED, CLIENT_LEFT
from traceforge.capture.hook.replayed_response import ReplayedResponse
from traceforge.capture.http_client import CHUNK_BYTES, CallCancelled, CallControl, HttpClient
from traceforge.capture.inprocess import find_hook


class StreamedResponse(NamedTuple):
    """A response whose body is read as it comes."""

    status: int
    media_type: str
    encoding: str  # of the body: `Content-Encoding`, or "" where it is not there
    chunks: Iterator[bytes]


@contextmanager
def watched_post(
    client: HttpClient, url: str, body: bytes, headers: Mapping[str, str], control: CallControl | None = None
) -> Iterator[StreamedResponse]:
    """Post a body; read the chunks inside the block.

    Where the call is recorded, `control.trace_id` is set when it begins; in a replay there is none.

    Raises:
        OSError, http.client.HTTPException: no response came, or it broke off.
    """
    control = control or CallControl()
    call = _begin_call(url, headers, control)
    if call.replays_first:
        replayed = call.replay(body)
        if replayed is not None:
            yield _from_replay(ReplayedResponse(*replayed))
            return
    control.trace_id = call.trace_id
    try:
        response = client.post(url, body, headers, control)
    except BaseException as exc:
        call.end_cancelled(exc) if isinstance(exc, CallCancelled) else call.end_unanswered(exc)
        raise
    with response:
        call.add_request_chunk(body)
        call.start_response(response.status, tuple(response.getheaders()))
        try:
            media_type, encoding = response.getheader("content-type", ""), response.getheader("content-encoding", "")
            yield StreamedResponse(response.status, media_type, encoding, _read_chunks(response, call))
        finally:
            call.end(CLIENT_LEFT)  # Of no effect where the response came to its end.


def _begin_call(url: str, headers: Mapping[str, str], control: CallControl) -> GuardedCall:
    """The watcher of this process records the call; where there is none, the recording of this call alone."""
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    call: GuardedCall | None = find_hook()[0].begin_call("POST", url, raw)
    if call is not None:
        return call
    begin_recording = control.begin_recording
    return GuardedCall(None if begin_recording is None else begin_recording("POST", url, decode_headers(raw)))


def _read_chunks(response: http.client.HTTPResponse, call: GuardedCall) -> Iterator[bytes]:
    try:
        while data := response.read1(CHUNK_BYTES):
            call.add_response_chunk(data)
            yield data
        if response.length:
            raise http.client.IncompleteRead(b"")
    except (OSError, http.client.HTTPException) as exc:
        call.end_cancelled(exc) if isinstance(exc, CallCancelled) else call.end_on_read_error(exc)
        raise
    call.end(ANSWERED)


def _from_replay(response: ReplayedResponse) -> StreamedResponse:
    headers = {name.lower(): value for name, value in response.headers}
    media_type, encoding = headers.get("content-type", ""), headers.get("content-encoding", "")
    return StreamedResponse(response.status, media_type, encoding, _replay_chunks(response))


def _replay_chunks(response: ReplayedResponse) -> Iterator[bytes]:
    yield from (data for _, data in response.chunks)
    if response.is_cut:
        raise http.client.IncompleteRead(b"")
