"""What a merge brings, worked out from lists of events, in another way than the store does it."""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.context.model.objects import Event


def find_new_events(theirs: list[Event], mine: list[Event], lines: list[list[Event]]) -> list[Event]:
    """The events of `theirs` that a branch with `mine` has not; `lines` are the events of all branches."""
    all_events = {event.id: event for line in lines for event in line}
    pasts = {event.id: line[: at + 1] for line in lines for at, event in enumerate(line)}

    def copied_from(event: Event) -> Iterator[str]:
        while event.rebased_from is not None:
            yield event.rebased_from
            event = all_events[event.rebased_from]

    merged: set[str] = set()
    copied: set[str] = set()
    waiting = list(mine)
    while waiting:
        event = waiting.pop()
        if event.id not in merged:
            merged.add(event.id)
            copied.update(copied_from(event))
            waiting += pasts[event.merged_from] if event.merged_from else []
    return [
        event
        for event in theirs
        if event.merged_from not in merged and not {event.id, *copied_from(event)} & (merged | copied)
    ]
