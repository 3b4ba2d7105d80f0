"""A replay run for its page: questions, lanes with marked words, and nothing of a model as markup."""

from __future__ import annotations

import pytest

from traceforge.canon import JSONObject
from traceforge.ui.page_renderer import PageRenderer
from traceforge.ui.views.replay_view import ItemView, count_verdicts, view_items
from traceforge.wire.unified import list_objects

QUESTION: JSONObject = {"role": "user", "kind": "user_message", "content": "How much?"}
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def lane(text: str, **fields: str) -> JSONObject:
    return {"target": {"provider": "openai", "model": "m"}, "output": {"content": text, **fields}, "error": None}


def report(**fields: object) -> JSONObject:
    """A report with one item."""
    item = {
        "position": 0, "snapshot_id": "snp_x", "verdict": "candidate_changed",
        "question": {"earlier_blocks": 2, "blocks": [QUESTION]},
        "lanes": {"recorded": lane("It is 42."), "fresh_baseline": None, "candidate": lane("It was 42.")},
        "differences": {"drift": None, "candidate": [{"rule": "answer.facts", "because": "is"}]},
    }  # fmt: skip
    verdicts = {"candidate_changed": 1, "unchanged": 0}
    return {"items": [{**item, **fields}], "summary": {"verdicts": verdicts}}  # type: ignore[dict-item]


def only_item(**fields: object) -> ItemView:
    (item,) = view_items(list_objects(report(**fields)["items"]))
    return item


def test_an_item_has_its_question_and_its_lanes() -> None:
    """Words that differ from the recorded answer are marked; a lane that was not asked says so."""
    item = only_item()
    recorded, fresh, candidate = item.lanes

    assert ("bad", True, 2, "How much?") == (item.colour, item.is_open, item.earlier_blocks, item.summary)
    assert [("user", "How much?")] == [(speaker, str(html)) for speaker, html in item.question]
    assert (("It is 42.", True), False) == ((str(recorded.html), recorded.is_there), fresh.is_there)
    assert "It <del>is</del><ins>was</ins> 42." == str(candidate.html)


def test_a_block_that_is_no_message_says_what_it_is() -> None:
    blocks = [{"role": "tool", "kind": "tool_result", "content": {"total": 42}}]

    ((speaker, html),) = only_item(question={"blocks": blocks}).question

    assert ("tool, tool result", True) == (speaker, "42" in str(html))


def test_a_long_question_is_folded_after_a_few_lines() -> None:
    """The answers below it are what a reader came for; nothing of it is lost."""
    text = "".join(f"line {number}\n" for number in range(40))
    ((_, html),) = only_item(question={"blocks": [{"role": "user", "kind": "", "content": text}]}).question
    head, _, tail = str(html).partition("<details")

    assert ("line 7\n" in head, "line 8" in head, "line 39" in tail) == (True, False, True)


def test_a_report_of_an_older_version_has_no_question() -> None:
    item = only_item(question=None)

    assert ((), 0) == (item.question, item.earlier_blocks)


@pytest.mark.parametrize("error", [None, EVIL])
def test_what_a_model_says_is_never_markup(error: str | None) -> None:
    """In the question, an answer, its other fields, an error and a reason."""
    evil = {**lane(EVIL, refusal=EVIL), "error": error}
    document = report(
        question={"blocks": [{"role": EVIL, "kind": EVIL, "content": EVIL}]},
        lanes={"recorded": evil, "fresh_baseline": evil, "candidate": evil},
        differences={"candidate": [{"rule": EVIL, "because": EVIL}]},
    )
    renderer = PageRenderer()
    template = renderer.environment.from_string(
        "{% for item in items %}{{ item.summary }}"
        "{% for role, html in item.question %}{{ role }}{{ html }}{% endfor %}"
        "{% for lane in item.lanes %}{{ lane.html }}{{ lane.other_html }}{{ lane.error }}{% endfor %}"
        "{% for title, changes in item.differences %}{% for change in changes %}{{ change.because }}{% endfor %}"
        "{% endfor %}{% endfor %}"
    )
    page = template.render(items=view_items(list_objects(document["items"])))

    assert "&lt;script&gt;" in page
    assert ("<script" not in page, "<img" not in page) == (True, True)


def test_verdicts_are_counted_with_their_meaning() -> None:
    assert [("candidate_changed", 1, "bad"), ("unchanged", 0, "good")] == [
        (verdict.name, verdict.items, verdict.colour) for verdict in count_verdicts(report())
    ]
