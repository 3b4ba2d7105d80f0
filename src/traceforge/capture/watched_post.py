"""A call of our own that is seen as those of any client are.

In: a request for the plain client. Out: its response, in pieces as they come; and whoever watches this process is
told of it, or answers it in a replay. Never: reaches the network where a replay answers.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from traceforge.capture.hook.guarded_call import ANSWERED, LEFT, Told, pairs
from traceforge.capture.hook.replayed_response import Answer
from traceforge.capture.http_client import CHUNK_BYTES, CallCancelled, CallControl, HttpClient
from traceforge.capture.inprocess import find_hook


class Response(NamedTuple):
    """What came back."""

    status: int
    media_type: str
    encoding: str  # what `Content-Encoding` says; "" where it is not there
    pieces: Iterator[bytes]


@contextmanager
def seen_post(
    client: HttpClient, url: str, body: bytes, headers: Mapping[str, str], line: CallControl | None = None
) -> Iterator[Response]:
    """Post a body; read the pieces inside the block.

    Where the call is recorded, its `line` knows from its beginning under which id; in a replay there is none.

    Raises:
        OSError, http.client.HTTPException: there is no response, or it broke off.
    """
    line = line or CallControl()
    told = _begin(url, headers, line)
    if told is not None and told.plays:
        played = told.play(body)
        if played is not None:
            yield _played(Answer(*played))
            return
    line.trace_id = told.trace_id if told is not None else ""
    try:
        response = client.post(url, body, headers, line)
    except BaseException as exc:
        if told is not None:
            told.left(exc) if isinstance(exc, CallCancelled) else told.failed(exc)
        raise
    with response:
        if told is not None:
            told.sent(body)
            told.answered(response.status, tuple(response.getheaders()))
        try:
            kind, encoding = response.getheader("content-type", ""), response.getheader("content-encoding", "")
            yield Response(response.status, kind, encoding, _pieces(response, told))
        finally:
            if told is not None:
                told.ended(LEFT)  # Where it came to its end, that was told before, and counts.


def _begin(url: str, headers: Mapping[str, str], line: CallControl) -> Told | None:
    """Whoever watches this process is told; where nobody does, whoever records this call alone."""
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    told: Told | None = find_hook()[0].begin("POST", url, raw)
    if told is None and line.begin_recording is not None:
        told = Told(line.begin_recording("POST", url, pairs(raw)))
    return told


def _pieces(response: http.client.HTTPResponse, told: Told | None) -> Iterator[bytes]:
    try:
        while data := response.read1(CHUNK_BYTES):
            if told is not None:
                told.came(data)
            yield data
        if response.length:
            raise http.client.IncompleteRead(b"")
    except (OSError, http.client.HTTPException) as exc:
        if told is not None:
            told.left(exc) if isinstance(exc, CallCancelled) else told.broke(exc)
        raise
    if told is not None:
        told.ended(ANSWERED)


def _played(answer: Answer) -> Response:
    named = {name.lower(): value for name, value in answer.headers}
    kind, encoding = named.get("content-type", ""), named.get("content-encoding", "")
    return Response(answer.status, kind, encoding, _recorded(answer))


def _recorded(answer: Answer) -> Iterator[bytes]:
    yield from (data for _, data in answer.chunks)
    if answer.cut:
        raise http.client.IncompleteRead(b"")
