"""The report of a replay run: lines for a terminal, and what its page shows of each item.

In: the report as JSON. Out: lines, and the lanes and differences of an item: `ui/views/replay_view.py` makes the page
and the file of `--html` from them. Never: compares by itself.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.compare.text_diff import TextDiff, diff_words
from traceforge.report.context_text import WIDTH, clip
from traceforge.report.text_format import count
from traceforge.terminal import one_line
from traceforge.wire.unified import as_object, as_text, list_objects

VERDICTS = {
    "unchanged": "The candidate says what was recorded.",
    "candidate_changed": "The candidate says something else; the baseline still says what was recorded.",
    "both_changed": "Neither says what was recorded: this is not the candidate's doing alone.",
    "drift_only": "The candidate says what was recorded; the baseline does not any more.",
    "not_recorded": "Nothing was recorded: the candidate is held against the fresh baseline.",
    "failed": "A lane gave no answer.",
}
LANES = {"recorded": "Recorded", "fresh_baseline": "Fresh baseline", "candidate": "Candidate"}
DIFFERENCES = {
    "drift": "Recorded → fresh baseline",
    "candidate": "Recorded → candidate",
    "candidate_against_fresh": "Fresh baseline → candidate",
}
CLIP = 160  # The part of a question that fits on one line of the page.
CLOSED_VERDICTS = ("unchanged",)  # Items that are closed at first.


def replay_lines(report: JSONObject) -> list[str]:
    """The report as text for a terminal."""
    verdicts = as_object(as_object(report["summary"])["verdicts"])
    lines = [
        one_line(f"{report['replay_run_id']}  {report['mode']}  {count(len(list_objects(report['items'])), 'item')}"),
        one_line(as_text(report["note"])),
        *(one_line(f"{name:<18} {number}") for name, number in verdicts.items()),
    ]
    for item in list_objects(report["items"]):
        head = one_line(f"{item['position']:>5}  {item['verdict']:<18} ")
        lines.append(f"{head}{clip(one_line(question_summary(item)), WIDTH - len(head))}".rstrip())
        rules = [as_text(change["rule"]) for change in list_objects(as_object(item["differences"]).get("candidate"))]
        lines += [f"       {one_line(rule)}" for rule in dict.fromkeys(rules)]
    return [*lines, one_line(f"evidence {report['evidence_digest']}")]


def question_summary(item: JSONObject) -> str:
    """The last block of the question in one line."""
    blocks = list_objects(as_object(item.get("question")).get("blocks"))
    return " ".join(content_text(blocks[-1]).split()) if blocks else ""


def content_text(block: JSONObject) -> str:
    """The content of a block of a question as text."""
    content = block.get("content")
    if content is None:
        return "(bytes)"
    return content if isinstance(content, str) else json_bytes(content).decode()


class ReplayLane(NamedTuple):
    """One lane of an item. `changes` compares its answer with the recorded one; None: there is nothing to compare."""

    title: str
    is_there: bool
    model: str = ""
    error: str = ""
    answer: str = ""
    changes: TextDiff | None = None
    other_fields: JSONObject | None = None  # Of the answer: tool calls, a refusal.


def read_lanes(item: JSONObject) -> list[ReplayLane]:
    """The three lanes of an item."""
    lanes = as_object(item["lanes"])
    recorded = _answer_text(lanes.get("recorded"))
    return [
        _read_lane(title, lanes.get(name), None if name == "recorded" else recorded) for name, title in LANES.items()
    ]


def read_differences(item: JSONObject) -> list[tuple[str, list[JSONObject]]]:
    """What was compared in an item, and the changes that were found."""
    differences = as_object(item["differences"])
    return [
        (title, list_objects(differences[name]))
        for name, title in DIFFERENCES.items()
        if isinstance(differences.get(name), list)
    ]


def _read_lane(title: str, lane: JSON, against: str | None) -> ReplayLane:
    if not isinstance(lane, dict):
        return ReplayLane(title, False)
    model = target_name(as_object(lane.get("target"))) if lane.get("target") else "logged"
    if lane.get("error"):
        return ReplayLane(title, True, model, str(lane["error"]))
    other_fields: JSONObject = {
        name: value
        for name, value in as_object(lane.get("output")).items()
        if name not in ("role", "content", "parts") and value
    }
    answer = _answer_text(lane) or ""
    changes = None if against is None else diff_words(against, answer)
    return ReplayLane(title, True, model, "", answer, changes, other_fields)


def _answer_text(lane: JSON) -> str | None:
    """The text of a lane's answer; None if the lane has no answer."""
    output = lane.get("output") if isinstance(lane, dict) else None
    if not isinstance(output, dict):
        return None
    content = output.get("content")
    return content if isinstance(content, str) else "" if content is None else json_bytes(content).decode()


def target_name(target: JSONObject) -> str:
    """A target, written as `provider/model`."""
    return f"{target.get('provider')}/{target.get('model')}"
