"""What child processes report about the recorder that a suite uses itself.

In: the frames of `hook/cassette_events`. Out: calls of a `CassetteObserver`, with the requests as the recorder
compares them, secrets included. Never: stores them, or trusts a frame: one that cannot be read raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol


class RecorderRequest(NamedTuple):
    """A request as a recorder holds it: filtered by the suite, not redacted by us."""

    method: str
    url: str
    media_type: str
    encodings: str
    body: bytes


class PlayedInteraction(NamedTuple):
    """A recorded interaction that answered a request."""

    scope: str
    cassette: str
    number: int  # in the cassette, from 0
    recorded: RecorderRequest
    sent: RecorderRequest


class UnansweredCall(NamedTuple):
    """A call that no recorded interaction answered, or that cannot be compared."""

    scope: str
    cassette: str
    method: str
    url: str
    outcome: str  # one of `hook/cassette_events`


class CassetteObserver(Protocol):
    """Receives the events of all processes, one at a time."""

    def add_loaded(self, scope: str, cassette: str, recorded: Sequence[tuple[str, str]], digest: str) -> None:
        """A cassette was read: the methods and URLs of its interactions, and the digest of the file."""

    def add_played(self, interaction: PlayedInteraction) -> None:
        """A recorded interaction answered a request."""

    def add_unanswered(self, call: UnansweredCall) -> None:
        """A call was not answered."""


def _add_loaded(observer: CassetteObserver, head: dict[str, Any], pieces: list[bytes]) -> None:
    recorded = [(str(method), str(url)) for method, url in head["recorded"]]
    observer.add_loaded(str(head["scope"]), str(head["cassette"]), recorded, str(head["digest"]))


def _add_played(observer: CassetteObserver, head: dict[str, Any], pieces: list[bytes]) -> None:
    recorded, sent = (
        _read_request(head[name], body) for name, body in zip(("recorded", "sent"), pieces, strict=True)
    )
    observer.add_played(
        PlayedInteraction(str(head["scope"]), str(head["cassette"]), int(head["index"]), recorded, sent)
    )


def _add_unanswered(observer: CassetteObserver, head: dict[str, Any], pieces: list[bytes]) -> None:
    observer.add_unanswered(
        UnansweredCall(*(str(head[name]) for name in ("scope", "cassette", "method", "url", "what")))
    )


def _read_request(head: dict[str, Any], body: bytes) -> RecorderRequest:
    method, url, media_type, encodings = (str(head[name]) for name in ("method", "url", "type", "encoding"))
    return RecorderRequest(method, url, media_type, encodings, body)


CASSETTE_EVENTS: dict[str, Callable[[CassetteObserver, dict[str, Any], list[bytes]], None]] = {
    "loaded": _add_loaded,
    "played": _add_played,
    "unanswered": _add_unanswered,
}
