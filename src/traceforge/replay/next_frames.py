"""Compare the frames of an open WebSocket as they come, each once.

In: the frames that a client has sent, redacted; then each further frame. Out: the further frames, as they would be
compared in a body with all of them. Never: compares a frame alone if its comparison depends on an earlier frame by
more than the ids that the client made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from traceforge.canon import JSON
from traceforge.replay.compared_body import UncomparedField, drop_fields
from traceforge.replay.compared_frames import CLIENT_FRAMES, compare_frames, list_client_frames
from traceforge.replay.volatile import VolatileRules

if TYPE_CHECKING:
    from traceforge.replay.request_redactor import RedactedHead, RequestRedactor


class ComparedFrames(Struct, frozen=True):
    """Frames as they are compared."""

    frames: list[JSON]
    has_redactions: bool  # something in them was redacted, which a response may repeat


class NextFrames:
    """One conversation: how many frames it has, and what those that follow may refer to."""

    def __init__(
        self,
        head: RedactedHead,
        redactor: RequestRedactor,
        volatile: VolatileRules,
        uncompared_fields: Sequence[UncomparedField],
        sent_body: JSON,
    ) -> None:
        """`sent_body` has the frames so far. `redactor` knows the values in them that are redacted in every frame."""
        self._head = head
        self._redactor = redactor
        self._volatile = volatile
        self._uncompared_fields = uncompared_fields
        self._item_ids: dict[str, str] = {}
        self.count = 0
        self._compare(sent_body)

    def compare(self, body: bytes) -> ComparedFrames | None:
        """The next frames, as they are compared; None if they must be compared together with all earlier frames.

        They must be if they bring a value that is redacted in every frame, so that the earlier ones change, too.
        """
        value, redactions = self._redactor.redact_body(self._head, body)
        if self._redactor.with_values(redactions) is not self._redactor:
            return None
        frames = self._compare(value)
        return None if frames is None else ComparedFrames(frames, bool(redactions))

    def _compare(self, value: JSON) -> list[JSON] | None:
        value = self._volatile.skip_items(CLIENT_FRAMES, self.count).replace_parts(value).value
        frames = list_client_frames(drop_fields(value, self._uncompared_fields)[0])
        if frames is None:
            return None
        self.count += len(frames)
        return compare_frames(frames, self._item_ids)
