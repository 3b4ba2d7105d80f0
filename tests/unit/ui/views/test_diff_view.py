"""The difference of two calls for a page."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.parsed_html import ParsedHtml
from support.ui_macros import render_macro
from support.work_counts import count_lines
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.compare.json_diff import list_differences
from traceforge.ui.views.diff_view import FIELDS_MAX, ComparisonView, view_comparison, view_value_changes
from traceforge.ui.views.text_diff_view import CONTEXT_LINES, LINES_MAX, DiffLine, TextDiffView, view_text_diff

TEXTS = st.text("ab <\n\u202e", max_size=40)


def flat(lines: tuple[DiffLine, ...]) -> list[DiffLine]:
    return [inner for line in lines for inner in (line.lines if line.kind == "fold" else (line,))]


def text_of(cells: list[Any]) -> str:
    return "\n".join(ParsedHtml(cell).text for cell in cells if cell is not None)


def call(messages: list[Any], choice: dict[str, Any], **fields: Any) -> ComparedCall:
    response = {"object": "chat.completion", "model": "m", "choices": [choice]}
    return ComparedCall.from_trace({"request": {"model": "m", "messages": messages, **fields}, "response": response})


def view_calls(before: ComparedCall, after: ComparedCall) -> ComparisonView:
    return view_comparison(compare(before, after))


def test_changed_words_are_marked_on_both_sides() -> None:
    """A line that differs stands beside its other version, with its number."""
    (line,) = view_text_diff("the red house", "the <blue> house").side_lines

    assert "changed" == line.kind
    assert "the <del>red</del> house" == line.before
    assert "the <ins>&lt;blue&gt;</ins> house" == line.after
    assert (1, 1) == (line.before_number, line.after_number)


def test_inline_has_both_versions_in_one_line() -> None:
    """The removed words, then the added ones."""
    (line,) = view_text_diff("the red house", "the blue house").inline_lines

    assert "the <del>red</del><ins>blue</ins> house" == line.after


def test_added_and_removed_lines_have_an_empty_other_side() -> None:
    """And the lines after them stay beside each other."""
    lines = view_text_diff("a\nb\nz", "a\nx\ny\nb\nz").side_lines

    assert [("added", None), ("added", None)] == [(line.kind, line.before) for line in lines if line.kind == "added"]
    assert (3, 5) == (lines[-1].before_number, lines[-1].after_number)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("a\nb\n", "a\nb\nc\n", ["same", "same", "added", "same"]),
        ("a\nb\nc\n", "a\nb\n", ["same", "same", "removed", "same"]),
        ("a\nc\n", "a\nb\nc\n", ["same", "added", "same", "same"]),
        ("a\nb", "a\nb\nc", ["same", "same", "added"]),
        ("a\nb\n", "a\nb", ["same", "same", "removed"]),
        ("", "a\n", ["added", "same"]),
        ("a\nb\n", "a\nc\nd\n", ["same", "changed", "added", "same"]),
    ],
)
def test_a_whole_line_stands_beside_nothing(before: str, after: str, kinds: list[str]) -> None:
    """An added or removed line is never paired with another line, or with the empty one after the last newline."""
    lines = view_text_diff(before, after).side_lines

    assert kinds == [line.kind for line in lines]


def test_far_unchanged_lines_are_folded() -> None:
    """Three lines around a change stay; the fold says how many it holds, and holds them."""
    lines = [f"line {number}" for number in range(40)]
    changed = [*lines[:20], "other", *lines[21:]]

    view = view_text_diff("\n".join(lines), "\n".join(changed))

    for shown in (view.side_lines, view.inline_lines):
        assert ["fold", *["same"] * CONTEXT_LINES, "changed", *["same"] * CONTEXT_LINES, "fold"] == [
            line.kind for line in shown
        ]
        assert "17 unchanged lines" == shown[0].label
        assert 40 == len(flat(shown))


@given(TEXTS, TEXTS)
def test_both_columns_give_their_text_back(before: str, after: str) -> None:
    """Whatever the texts are, nothing is lost, and nothing is marked where nothing differs."""
    view = view_text_diff(before, after)
    lines = flat(view.side_lines)

    assert before.replace("\u202e", "\\u202e") == text_of([line.before for line in lines])
    assert after.replace("\u202e", "\\u202e") == text_of([line.after for line in lines])
    assert (before == after) == all(line.kind == "same" for line in lines)
    for layout in ("side", "inline"):
        page = ParsedHtml(render_macro("diff.html", "text_diff", view, layout))
        assert [] == page.unbalanced


@pytest.mark.parametrize("name", ["side_lines", "inline_lines"])
def test_work_grows_with_the_length_of_the_texts(name: str) -> None:
    """Twice the lines take about twice the steps."""
    steps = []
    for size in (400, 800):
        view = view_text_diff("\n".join(f"a {n}" for n in range(size)), "\n".join(f"a {n // 9}" for n in range(size)))
        steps.append(count_lines(partial(getattr, view, name)))

    assert steps[1] <= 2.2 * steps[0]


def test_a_large_diff_is_cut_and_counted() -> None:
    """A page holds a bounded number of lines, and a line a bounded number of characters."""
    before, after = ("\n".join(f"{word} {n}" for n in range(3 * LINES_MAX)) for word in ("old", "new"))
    lines = view_text_diff(before, after).side_lines
    page = render_macro("diff.html", "text_diff", view_text_diff("x" * 5_000_000, "y"), "side")

    assert LINES_MAX + 1 == len(lines)
    assert f"{2 * LINES_MAX:,} more lines are not shown" == lines[-1].label
    assert len(page) < 200_000
    assert "more characters" in page


def test_words_are_counted() -> None:
    """How much was added and removed."""
    view = view_text_diff("one two three", "one four")

    assert (1, 2) == (view.words_added, view.words_removed)


def test_json_fields_are_listed_with_both_values() -> None:
    """Prose as a diff of words, other values before and after."""
    before = {"temperature": 0, "prompt": "be kind now", "old": [1]}
    after = {"temperature": 1, "prompt": "be brief now", "new": {"a": None}}

    fields = {f.path: f for f in view_value_changes("Fields", list_differences(before, after, "$")).fields}

    assert isinstance(fields["$.prompt"].text, TextDiffView)
    assert ["changed", "removed", "added"] == [fields[f"$.{name}"].kind for name in ("temperature", "old", "new")]
    assert fields["$.old"].after is None
    assert "[1]" == ParsedHtml(str(fields["$.old"].before)).text


def test_many_fields_are_counted() -> None:
    """An embedding differs in 1,536 places."""
    rows = list_differences([[n] for n in range(1_536)], [[n + 1] for n in range(1_536)], "$")

    group = view_value_changes("Answer", rows)

    assert (FIELDS_MAX, 1_536 - FIELDS_MAX) == (len(group.fields), group.omitted)


def test_a_comparison_shows_every_difference() -> None:
    """Settings, messages, the schema of a tool, the answer and its tool calls, each with its rule."""

    def tool(kind: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"city": {"type": kind}}}
        return {"type": "function", "function": {"name": "weather", "parameters": schema}}

    def choice(text: str, city: str) -> dict[str, Any]:
        calls = [
            {"id": "c", "type": "function", "function": {"name": "weather", "arguments": f'{{"city": "{city}"}}'}}
        ]
        return {"index": 0, "message": {"role": "assistant", "content": text, "tool_calls": calls}}

    before = call([{"role": "user", "content": "be kind"}], choice("It rains today.", "Rome"), tools=[tool("string")])
    after = call(
        [{"role": "user", "content": "be brief"}, {"role": "user", "content": "<script>"}],
        choice("It snows today.", "Oslo"),
        tools=[tool("number")],
        temperature=1,
    )

    view = view_calls(before, after)
    page = ParsedHtml(render_macro("diff.html", "comparison", view, "side"))

    titles = [(group.title, group.name, group.kind) for group in view.groups]
    assert ("Settings", "", "changed") in titles
    assert ("Message", "user", "changed") in titles
    assert ("Message", "user", "added") in titles
    assert ("Tool", "weather", "changed") in titles
    assert ("Tool call", "weather", "changed") in titles
    assert "$.request.tools[0].function.parameters.properties.city.type" in page.text
    assert [] == page.find_all("script") == page.unbalanced
    assert all(change.sentence in page.text for change in view.changes)


def test_equal_calls_have_no_difference() -> None:
    """The page says so in words."""
    same = call([{"role": "user", "content": "a"}], {"index": 0, "message": {"role": "assistant", "content": "b"}})

    view = view_calls(same, same)

    assert () == view.groups
    assert "Nothing that counts as behaviour differs." in render_macro("diff.html", "comparison", view, "inline")
