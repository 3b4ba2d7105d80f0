"""The branches of a session: as a drawing with forks and merges, and as rows that say the same in words.

In: branches, and the events that each appended itself. Out: SVG as HTML, and rows. Never: a script, a style or a
colour (classes have them); more than LANES_MAX branches or COLUMNS_MAX events in the drawing: the rows have all.

A branch is a line from left to right. It shows only the events where something happens: its first and its last one,
forks and merges. A number above the line counts the events in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from markupsafe import Markup, escape

from traceforge.context.model.objects import Branch, Event
from traceforge.report.text_format import count
from traceforge.terminal import escape_characters
from traceforge.ui.plots import SERIES_CLASSES
from traceforge.ui.views.context_text import branch_name, event_line, title_words
from traceforge.ui.views.text_view import clip_text

LANES_MAX = 60  # About three screens.
COLUMNS_MAX = 200
TITLE_CHARS = 200  # Of the text that appears over an event.

_LEFT_MARGIN, _TOP_MARGIN, _BOTTOM_MARGIN = 16, 22, 14
_LANE, _COLUMN = 40, 44  # The distance of two branches, and of two events.
_LABEL_WIDTH = 320
LABEL_CHARS_MAX = 28  # With the number of events they fit; the row below has the whole name.
_BEND = 20  # How far a fork or a merge needs to go from one line to another.


class BranchRow(NamedTuple):
    """A branch as a row of the list."""

    id: str
    name: str
    depth: int  # Forks of forks are further in.
    series: int  # The class of its colour in the drawing.
    is_default: bool
    version: int
    own_events: int
    origin: str  # Where it was forked: `main at 4`; "" for a first branch.
    merges: tuple[str, ...]  # Names of the branches that were merged into it.
    changed_at: str
    text: str  # The beginning of its last event.


class BranchGraph(NamedTuple):
    """The drawing and its rows. `omitted` branches are only in the rows."""

    svg: Markup
    rows: tuple[BranchRow, ...]
    omitted: int = 0


def view_branches(
    branches: Sequence[Branch], events: Mapping[str, Sequence[Event]], default_branch_id: str
) -> BranchGraph:
    """Draw the branches of a session; a fork stands below the branch that it left."""
    names = {branch.id: branch_name(branch.label, branch.id) for branch in branches}
    owners = {event.id: event for own in events.values() for event in own}
    order = list(_order_branches(branches, owners))
    rows = tuple(
        _branch_row(branch, depth, place, events.get(branch.id, ()), names, owners, default_branch_id)
        for place, (branch, depth) in enumerate(order)
    )
    drawn = [branch for branch, _ in order[:LANES_MAX]]
    return BranchGraph(_Drawing(drawn, events, names).draw(), rows, len(order) - len(drawn))


def _order_branches(branches: Sequence[Branch], owners: Mapping[str, Event]) -> Iterator[tuple[Branch, int]]:
    """Every branch after the branch whose event it left, with how many forks led to it."""
    branch_ids = {branch.id for branch in branches}
    children: dict[str, list[Branch]] = {}
    for branch in branches:
        fork = owners.get(branch.forked_from_event_id or "")
        origin = fork.branch_id if fork else branch.parent_branch_id
        parent = origin if origin in branch_ids and origin != branch.id else None
        children.setdefault(parent or "", []).append(branch)
    waiting = [(branch, 0) for branch in reversed(children.get("", []))]
    while waiting:
        branch, depth = waiting.pop()
        yield branch, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(branch.id, []))]


def _branch_row(
    branch: Branch, depth: int, place: int, own: Sequence[Event], names: Mapping[str, str],
    owners: Mapping[str, Event], default_branch_id: str,
) -> BranchRow:  # fmt: skip
    fork = owners.get(branch.forked_from_event_id or "")
    parent = names.get((fork.branch_id if fork else branch.parent_branch_id) or "", "")
    sources = [owners.get(event.merged_from or event.rebased_from or "") for event in own]
    merged = [names.get(source.branch_id, "") for source in sources if source is not None]
    return BranchRow(
        id=branch.id,
        name=names[branch.id],
        depth=depth,
        series=place % SERIES_CLASSES,
        is_default=branch.id == default_branch_id,
        version=branch.version,
        own_events=len(own),
        origin=f"{parent} at {fork.sequence}" if fork else f"the start of {parent}" if parent else "",
        merges=tuple(dict.fromkeys(name for name in merged if name)),
        changed_at=own[-1].created_at if own else branch.created_at,
        text=event_line(own[-1]) if own else "",
    )


class _Drawing:
    """Places lines and events, and writes them as SVG."""

    def __init__(
        self, branches: Sequence[Branch], events: Mapping[str, Sequence[Event]], names: Mapping[str, str]
    ) -> None:
        self.branches = branches
        self.names = names
        self.events = {branch.id: events.get(branch.id, ()) for branch in branches}
        self.lanes = {branch.id: place for place, branch in enumerate(branches)}
        self.by_id = {event.id: event for own in self.events.values() for event in own}
        self.joins = {event.id: source for own in self.events.values() for event, source in _joins(own)}
        ordered = sorted(self._important_events(), key=lambda event: (event.created_at, event.sequence, event.id))
        self.columns = {event.id: column for column, event in enumerate(ordered[:COLUMNS_MAX])}

    def _important_events(self) -> Iterator[Event]:
        forks = {branch.forked_from_event_id for branch in self.branches}
        ends = {event.id for own in self.events.values() if own for event in (own[0], own[-1])}
        important = forks | ends | self.joins.keys() | set(self.joins.values())
        return (event for event in self.by_id.values() if event.id in important)

    @property
    def label_x(self) -> int:
        """Names have a column of their own, so that no line crosses them."""
        return _LEFT_MARGIN + max(len(self.columns), 1) * _COLUMN

    def draw(self) -> Markup:
        width = self.label_x + _LABEL_WIDTH
        height = _TOP_MARGIN + max(len(self.branches) - 1, 0) * _LANE + _BOTTOM_MARGIN
        pieces = [piece for branch in self.branches for piece in self._draw_branch(branch)]
        head = f'<svg class="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        # The rows below say the same in words, and can be reached with the keyboard.
        return Markup(f'{head} aria-hidden="true" focusable="false">{"".join(pieces)}</svg>')  # noqa: S704 (escaped)

    def _x(self, event: Event) -> float:
        return _LEFT_MARGIN + self.columns[event.id] * _COLUMN

    def _y(self, branch_id: str) -> float:
        return _TOP_MARGIN + self.lanes[branch_id] * _LANE

    def _draw_branch(self, branch: Branch) -> Iterator[str]:
        series = f"series-{self.lanes[branch.id] % SERIES_CLASSES}"
        own = [event for event in self.events[branch.id] if event.id in self.columns]
        y = self._y(branch.id)
        start = self._start(branch)
        end = self._x(own[-1]) if own else start + _BEND
        yield from self._draw_fork(branch, series)
        yield f'<path class="graph-line {series}" d="M{start} {y}H{max(end, start)}"/>'
        for event in own:
            yield from self._draw_merge(event)
        yield from self._draw_counts(own, y)
        for event in own:
            yield self._draw_event(event, y, series)
        events = count(len(self.events[branch.id]), "event")
        name = clip_text(self.names[branch.id], LABEL_CHARS_MAX)
        yield (
            f'<a class="graph-link" tabindex="-1" href="/context/branches/{_text(branch.id)}?session='
            f'{_text(branch.session_id)}"><text class="graph-label" x="{self.label_x}" y="{y + 4}">'
            f'{_text(name)}<tspan class="graph-note" dx="8">{events}</tspan></text></a>'
        )

    def _start(self, branch: Branch) -> float:
        fork = self.by_id.get(branch.forked_from_event_id or "")
        if fork is not None and fork.id in self.columns:
            return self._x(fork) + _BEND
        own = self.events[branch.id]
        return self._x(own[0]) if own and own[0].id in self.columns else _LEFT_MARGIN

    def _draw_fork(self, branch: Branch, series: str) -> Iterator[str]:
        fork = self.by_id.get(branch.forked_from_event_id or "")
        if fork is not None and fork.id in self.columns:
            yield self._curve(f"graph-line {series}", self._x(fork), fork.branch_id, self._start(branch), branch.id)

    def _draw_merge(self, event: Event) -> Iterator[str]:
        source = self.by_id.get(self.joins.get(event.id, ""))
        if source is not None and source.id in self.columns and source.branch_id != event.branch_id:
            series = f"series-{self.lanes[source.branch_id] % SERIES_CLASSES}"
            name = f"graph-line graph-merge {series}"
            yield self._curve(name, self._x(source), source.branch_id, self._x(event), event.branch_id)

    def _curve(self, name: str, x1: float, from_branch: str, x2: float, to_branch: str) -> str:
        y1, y2, middle = self._y(from_branch), self._y(to_branch), (x1 + x2) / 2
        return f'<path class="{name}" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"/>'

    def _draw_counts(self, drawn: Sequence[Event], y: float) -> Iterator[str]:
        for before, after in pairwise(drawn):
            hidden = after.sequence - before.sequence - 1
            if hidden > 0:
                x = (self._x(before) + self._x(after)) / 2
                yield f'<text class="graph-count" x="{x}" y="{y - 7}">+{hidden}</text>'

    def _draw_event(self, event: Event, y: float, series: str) -> str:
        is_merge = event.id in self.joins
        name = "graph-event graph-joined" if is_merge else "graph-event"
        title = f"{event.sequence} {title_words(event.event_type.value)}: {event_line(event, TITLE_CHARS)}"
        radius = 6 if is_merge else 4.5
        return (
            f'<circle class="{name} {series}" cx="{self._x(event)}" cy="{y}" r="{radius}">'
            f"<title>{_text(title)}</title></circle>"
        )


def _joins(own: Sequence[Event]) -> Iterator[tuple[Event, str]]:
    """Events that came from another branch, with their source; of events that were copied in a row, the last."""
    for event, following in zip_longest(own, own[1:]):
        if event.merged_from:
            yield event, event.merged_from
        elif event.rebased_from and not (following and following.rebased_from):
            yield event, event.rebased_from


def _text(text: str) -> str:
    return str(escape(escape_characters(text)))
