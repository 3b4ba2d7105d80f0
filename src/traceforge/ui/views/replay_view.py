"""A replay run for a page: every item with its question, its three lanes, and what differs.

In: the report of a run, as JSON. Out: plain data for `templates/context/replay_run.html`. Never: compares by itself:
`report/replay_run_report.py` reads the lanes for this page and for the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from traceforge.canon import JSONObject
from traceforge.compare.text_diff import TextDiff
from traceforge.report.context_text import clip
from traceforge.report.replay_run_report import (
    CLIP,
    CLOSED_VERDICTS,
    VERDICTS,
    ReplayLane,
    content_text,
    question_summary,
    read_differences,
    read_lanes,
)
from traceforge.ui.views.json_view import folded_html, json_html
from traceforge.ui.views.text_view import fold_text, visible_html
from traceforge.wire.unified import as_object, as_text, list_objects

VERDICT_COLOURS = {
    "unchanged": "good", "candidate_changed": "bad", "failed": "bad", "both_changed": "warn", "drift_only": "warn",
}  # fmt: skip


QUESTION_CHARS = 1_500
QUESTION_LINES_MAX, QUESTION_LINES = 14, 8  # A longer text is folded after so many lines.


class VerdictCount(NamedTuple):
    """How many items have a verdict, and what it means."""

    name: str
    items: int
    colour: str
    meaning: str


class LaneView(NamedTuple):
    """One lane; `html` has its answer with the words that differ from the recorded one."""

    title: str
    is_there: bool
    model: str
    error: str
    html: Markup
    other_html: Markup


class ItemView(NamedTuple):
    """One item of a run."""

    position: int
    verdict: str
    colour: str
    is_open: bool
    summary: str
    snapshot_id: str
    earlier_blocks: int  # Of the input, before those of the question.
    question: tuple[tuple[str, Markup], ...]  # Who says each block, and its text.
    lanes: tuple[LaneView, ...]
    differences: tuple[tuple[str, tuple[JSONObject, ...]], ...]


def count_verdicts(report: JSONObject) -> list[VerdictCount]:
    """The verdicts of a run, with their meaning."""
    verdicts = as_object(as_object(report["summary"])["verdicts"])
    return [
        VerdictCount(name, number, VERDICT_COLOURS.get(name, "none"), VERDICTS.get(name, ""))
        for name, number in verdicts.items()
        if isinstance(number, int)
    ]


def view_items(items: Sequence[JSONObject]) -> list[ItemView]:
    """The items of a report for one page."""
    return [_view_item(item) for item in items]


def _view_item(item: JSONObject) -> ItemView:
    verdict = as_text(item["verdict"])
    question = as_object(item.get("question"))
    blocks = list_objects(question.get("blocks"))
    position, earlier = item["position"], question.get("earlier_blocks")
    return ItemView(
        position=position if isinstance(position, int) else 0,
        verdict=verdict,
        colour=VERDICT_COLOURS.get(verdict, "none"),
        is_open=verdict not in CLOSED_VERDICTS,
        summary=clip(question_summary(item), CLIP),
        snapshot_id=as_text(item["snapshot_id"]),
        earlier_blocks=earlier if isinstance(earlier, int) else 0,
        question=tuple((_speaker(block), _fold_lines(content_text(block))) for block in blocks),
        lanes=tuple(map(_view_lane, read_lanes(item))),
        differences=tuple((title, tuple(changes)) for title, changes in read_differences(item)),
    )


def _speaker(block: JSONObject) -> str:
    role, kind = as_text(block["role"]), as_text(block.get("kind"))
    return role if kind in ("", "user_message") else f"{role}, {kind.replace('_', ' ')}"


def _view_lane(lane: ReplayLane) -> LaneView:
    html = _folded(lane.answer) if lane.changes is None else mark_words(lane.changes)
    other = json_html(lane.other_fields) if lane.other_fields else Markup()
    return LaneView(lane.title, lane.is_there, lane.model, lane.error, html, other)


def mark_words(changes: TextDiff) -> Markup:
    """A text with the added and removed words marked."""
    return Markup("".join(_marked_pieces(changes)))  # noqa: S704 (every piece is escaped)


def _marked_pieces(changes: TextDiff) -> Iterator[str]:
    for segment in changes.segments:
        if segment.is_same:
            yield str(_folded(segment.after))
            continue
        yield f"<del>{visible_html(segment.before)}</del>" if segment.before else ""
        yield f"<ins>{visible_html(segment.after)}</ins>" if segment.after else ""


def _fold_lines(text: str) -> Markup:
    """A text of which a page shows the beginning: the answers below it are what a reader came for."""
    lines = text.splitlines(keepends=True)
    chars = len("".join(lines[:QUESTION_LINES])) if len(lines) > QUESTION_LINES_MAX else QUESTION_CHARS
    return Markup(folded_html(fold_text(text, min(chars, QUESTION_CHARS), 0)))  # noqa: S704 (escaped)


def _folded(text: str) -> Markup:
    return Markup(folded_html(fold_text(text)))  # noqa: S704 (escaped)
