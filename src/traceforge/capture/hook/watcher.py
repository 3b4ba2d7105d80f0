"""What the hook calls on a watcher: the one place where that interface is written down.

A watcher records the calls of a process, or answers them from recordings, or both. Subclasses override what applies
to them. Nothing that they raise reaches the application; in a replay, the call is refused instead.

    begin_call       every model call, before it is sent                      all
    replay_call      the same call, once its request is complete              those with `replays`
    count_refusal    a call that was refused because replaying it failed      those with `replays`
    compare_answers  what the application did itself in an approved call      those with `replays`
    count_library_answer  a call that a recorder or a mock of the suite answered   all
    note_unseen      traffic that cannot be watched                           those that record
"""

from __future__ import annotations

from typing import Any

from .in_flight_call import HeaderPairs, InFlightCall

LOADED = ", which is loaded"  # The end of a note about a client that many libraries load and never use.


class Watcher:
    """Base class, with the defaults of a watcher that only records."""

    replays = False  # It answers calls from recordings, so that it decides about every call to a provider.
    is_strict = False  # No call may go upstream. Set for replays in this process; in a child, the parent decides.
    needs_call_site = True  # It wants to know which line of the application makes a call.

    def begin_call(self, method: str, url: str, headers: HeaderPairs, source: str) -> InFlightCall | None:
        """A call begins at the call site `source`; None: leave it alone."""
        raise NotImplementedError

    def replay_call(self, call: InFlightCall, body: bytes) -> Any:
        """The `ReplayedResponse` (or its fields) to a request; None: the call goes upstream, and is recorded."""
        raise NotImplementedError

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        """A call of this scope was refused because it could not be replayed.

        `is_deviation`: it is approved, and the application waits or reads on where it did not when it was recorded.
        """

    def compare_answers(self, answers: tuple[bytes, bytes], reason: str, scope: str) -> None:
        """Two answers are JSON, a redacted one and one of today: count the reason where they differ.

        The reason is that of a deviation, as in `count_refusal`.
        """

    def count_library_answer(self, library: str) -> None:
        """A recorder or a mock of the application answered a call, so the gate did not compare it."""

    def note_unseen(self, description: str) -> None:
        """Something carries model calls that cannot be watched, such as gRPC."""
