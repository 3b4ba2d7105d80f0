"""A call of our own that is seen as those of any client are.

In: a request for the plain client. Out: its response, in pieces as they come; and whoever watches this process is
told of it, or answers it in a replay. Never: reaches the network where a replay answers.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from traceforge.capture.client import PIECE_BYTES, Client
from traceforge.capture.hook.played import Answer
from traceforge.capture.hook.told import ANSWERED, LEFT, Told
from traceforge.capture.inprocess import find_hook


class Response(NamedTuple):
    """What came back."""

    status: int
    media_type: str
    pieces: Iterator[bytes]


@contextmanager
def seen_post(client: Client, url: str, body: bytes, headers: Mapping[str, str]) -> Iterator[Response]:
    """Post a body; read the pieces inside the block.

    Raises:
        OSError, http.client.HTTPException: there is no response, or it broke off.
    """
    told = _begin(url, headers)
    if told is not None and told.plays:
        played = told.play(body)
        if played is not None:
            yield _played(Answer(*played))
            return
    try:
        response = client.post(url, body, headers)
    except BaseException as exc:
        if told is not None:
            told.failed(exc)
        raise
    with response:
        if told is not None:
            told.sent(body)
            told.answered(response.status, tuple(response.getheaders()))
        try:
            yield Response(response.status, response.getheader("content-type", ""), _pieces(response, told))
        finally:
            if told is not None:
                told.ended(LEFT)  # Where it came to its end, that was told before, and counts.


def _begin(url: str, headers: Mapping[str, str]) -> Told | None:
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    told: Told | None = find_hook()[0].begin("POST", url, raw)
    return told


def _pieces(response: http.client.HTTPResponse, told: Told | None) -> Iterator[bytes]:
    try:
        while data := response.read1(PIECE_BYTES):
            if told is not None:
                told.came(data)
            yield data
        if response.length:
            raise http.client.IncompleteRead(b"")
    except (OSError, http.client.HTTPException) as exc:
        if told is not None:
            told.broke(exc)
        raise
    if told is not None:
        told.ended(ANSWERED)


def _played(answer: Answer) -> Response:
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    return Response(answer.status, kind, _recorded(answer))


def _recorded(answer: Answer) -> Iterator[bytes]:
    yield from (data for _, data in answer.chunks)
    if answer.cut:
        raise http.client.IncompleteRead(b"")
