"""The chain of a tree's approvals: which one follows which, and which is the latest of a snapshot or a setting.

In: the approvals of a tree. Out: its heads, missing predecessors, and the latest approvals of each thing they name.
Never: trusts a time: an approval names its predecessors by their hashes, and its own hash covers them.

An approval follows every approval that no other one followed when it was made. Two branches that both approve leave
two heads, and the next approval follows both. Approvals of older versions name no predecessors: what they left counts
as made at the same time.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import UNSET

from traceforge.canon import JSON
from traceforge.snapshots.formats.approval_format import StoredApproval
from traceforge.snapshots.formats.approved_policy import REQUIRE_SIGNED, ApprovedSettings

Value = TypeVar("Value")


class MissingPredecessor(NamedTuple):
    """An approval, and the place in its `follows` of one that is not in the tree."""

    stored: StoredApproval
    place: int

    @property
    def predecessor(self) -> str:
        """The hash of the approval that is missing."""
        return _follows(self.stored)[self.place]


class ApprovalChain:
    """The approvals of one tree, each with the set of all that it follows, directly or not."""

    def __init__(self, approvals: Sequence[StoredApproval]) -> None:
        self.approvals = approvals
        self._places = {stored.approval.hash: place for place, stored in enumerate(approvals)}
        self._absent = {
            name for stored in approvals if stored.approval.absent is not UNSET for name in stored.approval.absent
        }
        # A set of approvals is one integer, with the bit of each place: the chain of a year has a thousand of them.
        self._ancestors = [0] * len(approvals)
        for place in self._sort_by_predecessors():
            for parent in self._parents(place):
                self._ancestors[place] |= self._ancestors[parent] | 1 << parent

    @property
    def heads(self) -> list[StoredApproval]:
        """The approvals that no other one follows, oldest first: the next approval follows them."""
        followed = {parent for place in range(len(self.approvals)) for parent in self._parents(place)}
        return [stored for place, stored in enumerate(self.approvals) if place not in followed]

    def find_missing(self) -> Iterator[MissingPredecessor]:
        """Approvals that follow one which is not in the tree, unless an approval says that it is absent."""
        for stored in self.approvals:
            for place, name in enumerate(_follows(stored)):
                if name not in self._places and name not in self._absent:
                    yield MissingPredecessor(stored, place)

    def has_approved_gap(self, stored: StoredApproval) -> bool:
        """Whether an approval, or one that it follows, follows one that an approval calls absent."""
        place = self._places[stored.approval.hash]
        return any(
            name not in self._places and name in self._absent
            for other in range(len(self.approvals))
            if other == place or self._is_ancestor(other, place)
            for name in _follows(self.approvals[other])
        )

    def find_unlinked(self) -> Iterator[StoredApproval]:
        """Approvals that name no predecessors and have no successor, although others of the tree name theirs."""
        if any(stored.approval.follows is not UNSET for stored in self.approvals):
            yield from (stored for stored in self.heads if stored.approval.follows is UNSET)

    def requires_signatures(self) -> bool:
        """Whether the next approval must be signed."""
        return self._requires_signatures(range(len(self.approvals)))

    def find_required_signatures(self) -> Iterator[StoredApproval]:
        """The approvals that must be signed.

        These are the first one that approved to require signatures; those after it, up to the one that approved to
        require none any more; and those beside it, which it does not follow.
        """
        requiring = [place for place, value in self._list_values(REQUIRE_SIGNED) if value is True]
        for place, stored in enumerate(self.approvals if requiring else ()):
            if any(self._is_ancestor(other, place) for other in requiring):
                is_required = self._requires_signatures(
                    [other for other in range(len(self.approvals)) if self._is_ancestor(other, place)]
                )
            else:
                is_required = not any(self._is_ancestor(place, other) for other in requiring)
            if is_required or place in requiring:
                yield stored

    def latest_states(self) -> dict[str, list[str | None]]:
        """By snapshot: what its latest approvals left, several after a merge. None: it was removed."""
        named: dict[str, list[tuple[int, str | None]]] = {}
        for place, stored in enumerate(self.approvals):
            for change in stored.approval.changes:
                named.setdefault(change.id, []).append((place, change.after))
        return {name: self._select_latest(states) for name, states in named.items()}

    def find_last_file(self, name: str) -> str:
        """The file that the last approval of a snapshot names."""
        files = [change.file for stored in self.approvals for change in stored.approval.changes if change.id == name]
        return files[-1]

    def recorded_ids(self) -> set[str]:
        """The snapshots that were approved with a raw response."""
        return {
            change.id
            for stored in self.approvals
            for change in stored.approval.changes
            if isinstance(change.raw_response, str)
        }

    def approved_settings(self) -> ApprovedSettings | None:
        """By setting: what its latest approvals left; None where no approval names a policy."""
        named: dict[str, list[tuple[int, JSON]]] = {}
        has_policy = False
        for place, stored in enumerate(self.approvals):
            if stored.approval.policy is not UNSET:
                has_policy = True
                for name, change in stored.approval.policy.items():
                    named.setdefault(name, []).append((place, change.after))
        return {name: self._select_latest(values) for name, values in named.items()} if has_policy else None

    def _list_values(self, setting: str) -> list[tuple[int, JSON]]:
        """The values of a setting that approvals left, with their places."""
        return [
            (place, stored.approval.policy[setting].after)
            for place, stored in enumerate(self.approvals)
            if stored.approval.policy is not UNSET and setting in stored.approval.policy
        ]

    def _requires_signatures(self, places: Container[int]) -> bool:
        """Whether the latest of these approvals that are about it require signatures."""
        named = [(place, value) for place, value in self._list_values(REQUIRE_SIGNED) if place in places]
        return True in self._select_latest(named)

    def _is_ancestor(self, place: int, other: int) -> bool:
        return bool(self._ancestors[other] >> place & 1)

    def _select_latest(self, named: Sequence[tuple[int, Value]]) -> list[Value]:
        """The values of the approvals that no other of these follows."""
        earlier = 0
        for place, _ in named:
            earlier |= self._ancestors[place]
        return [value for place, value in named if not earlier >> place & 1]

    def _parents(self, place: int) -> list[int]:
        return [self._places[name] for name in _follows(self.approvals[place]) if name in self._places]

    def _sort_by_predecessors(self) -> list[int]:
        """Every place, after those that it follows. Cycles cannot exist: a hash covers the hashes that it follows."""
        order: dict[int, None] = {}
        waiting = list(range(len(self.approvals)))
        while waiting:
            missing = [parent for parent in self._parents(waiting[-1]) if parent not in order]
            if missing:
                waiting += missing
            else:
                order[waiting.pop()] = None
        return list(order)


def _follows(stored: StoredApproval) -> Sequence[str]:
    follows = stored.approval.follows
    return follows if follows is not UNSET else ()
