"""A comparison as a person reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.compare.compared_call import ComparedAnswer, ComparedCall, ComparedChoice, ToolCall
from traceforge.compare.comparison import Comparison, compare
from traceforge.report.diff_text import SECTION_LINES_MAX, comparison_text

_ANSI = re.compile("\x1b\\[(?:31|32|0)m")


def _requests(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    return compare(ComparedCall(before, None), ComparedCall(after, None))


def _answers(before: ComparedChoice | str, after: ComparedChoice | str) -> Comparison:
    sides = [ComparedChoice(side) if isinstance(side, str) else side for side in (before, after)]
    return compare(ComparedCall({}, ComparedAnswer((sides[0],))), ComparedCall({}, ComparedAnswer((sides[1],))))


def _prompts(before: str, after: str) -> Comparison:
    return _requests({"prompt": before}, {"prompt": after})


def _last_line(comparison: Comparison, **options: bool) -> str:
    return comparison_text(comparison, **options).splitlines()[-1]


def test_a_comparison_shows_its_rules_and_then_every_difference() -> None:
    """Rule, evidence, settings, messages, tools, answer: one page for one change."""
    before = ComparedCall(
        {
            "temperature": 0,
            "messages": [{"role": "system", "content": "You are a precise assistant."}],
            "tools": [{"name": "f", "description": "Finds a place."}, {"name": "g"}],
        },
        ComparedAnswer((ComparedChoice("It is Paris.", "stop", "", (ToolCall("f", {"q": 1}),)),), {}, "m-1"),
    )
    after = ComparedCall(
        {
            "temperature": 0.5,
            "messages": [
                {"role": "user", "content": "Hello!"},
                {"role": "system", "content": "You are a terse assistant."},
            ],
            "tools": [{"name": "g"}, {"name": "f", "description": "Finds a town."}],
        },
        ComparedAnswer(
            (ComparedChoice("It is Lyon.", "length", "", (ToolCall("f", {"q": 2}), ToolCall("h", "{bad"))),),
            {},
            "m-2",
        ),
    )

    assert """\
request.prompt: The prompt changed.
    $.request.messages[0] (user) added, $.request.messages[1] (system) changed
request.parameters: A parameter changed.
    $.request.temperature: 0 → 0.5
request.tools: The tools that the model may use changed.
    f changed
answer.tools: The model's tool calls changed.
    f changed, h added
answer.facts: A number, date, link or name differs.
    Paris → Lyon
answer.length: The answer is much longer or shorter.
    cut short: finish_reason is length
answer.finish: The finish reason changed.
    $.response.choices[0].finish_reason: "stop" → "length"

settings
    $.request.temperature: 0 → 0.5

messages
  + $.request.messages[0] (user) added
    .content: {+Hello!+}
  ~ $.request.messages[1] (system) changed
    .content: You are a [-precise-]{+terse+} assistant.

tools
  ~ $.request.tools[1] (f) changed, moved
    .description: Finds a [-place-]{+town+}.

answer
    text: It is [-Paris-]{+Lyon+}.
    finish_reason: "stop" → "length"
  ~ tool call f changed
    $.arguments.q: 1 → 2
  + tool call h added: "{bad"

note: another model answered: "m-1" → "m-2\"""" == comparison_text(compare(before, after))


def test_equal_calls_are_unchanged() -> None:
    assert "unchanged" == comparison_text(_prompts("a", "a"))


def test_long_unchanged_stretches_are_left_out_and_counted() -> None:
    """A few words stay around each edit; `full` leaves nothing out."""
    filler = " ".join(f"w{place}" for place in range(50))
    comparison = _prompts(f"{filler} old {filler} past {filler}", f"{filler} new {filler} next {filler}")

    assert (
        "    $.request.prompt: … 42 words … w42 w43 w44 w45 w46 w47 w48 w49 [-old-]{+new+} "
        "w0 w1 w2 w3 w4 w5 w6 w7 … 34 words … w42 w43 w44 w45 w46 w47 w48 w49 [-past-]{+next+} "
        "w0 w1 w2 w3 w4 w5 w6 w7 … 42 words …"
    ) == _last_line(comparison)
    assert f"    $.request.prompt: {filler} [-old-]{{+new+}} {filler} [-past-]{{+next+}} {filler}" == _last_line(
        comparison, full=True
    )


def test_a_long_edit_is_cut_and_counted() -> None:
    """A megabyte that was put in does not scroll away everything else; `full` shows it."""
    comparison = _prompts("", "so " * 500)

    assert _last_line(comparison).endswith("so … 100 words …+}")
    assert "so " * 500 in _last_line(comparison, full=True)


def test_many_places_are_cut_and_counted() -> None:
    """A section has a bound; `full` shows all of it."""
    comparison = _requests({"x": [{"a": 1}] * 100}, {"x": [{"a": 2}] * 100})

    assert f"    … {100 - SECTION_LINES_MAX} more lines …" == _last_line(comparison)
    assert "    $.request.x[99].a: 1 → 2" == _last_line(comparison, full=True)


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [
        ("a b", "a  b", "    $.request.prompt: a[-·-]{+··+}b"),
        ("a b", "a\tb", "    $.request.prompt: a[-·-]{+\\t+}b"),
        ("a b", "a\nb", "    $.request.prompt:\n        | a[-·-]{+⏎\n        | +}b"),
    ],
)
def test_white_space_that_changed_can_be_seen(before: str, after: str, marked: str) -> None:
    """Spaces, tabs and line ends are drawn where nothing else changed."""
    assert comparison_text(_prompts(before, after)).endswith(marked)


def test_lines_of_a_text_are_shown_as_lines_after_a_bar() -> None:
    """So no line of a text can be mistaken for one of the report."""
    assert comparison_text(_prompts("one\nanswer.facts: x", "two\nanswer.facts: x")).endswith(
        "prompt\n    $.request.prompt:\n        | [-one-]{+two+}\n        | answer.facts: x"
    )


def test_a_text_cannot_forge_the_marks_of_the_report() -> None:
    """Marks inside a text are escaped."""
    assert "    $.request.prompt: [\\-x-\\] {\\+y+\\} [-a-]{+b+}" == _last_line(
        _prompts("[-x-] {+y+} a", "[-x-] {+y+} b")
    )


def test_colour_is_added_and_changes_nothing_else() -> None:
    """Deletions are red, insertions green, line by line; without the codes the text is the same."""
    comparison = _prompts("a x\ny b", "a c b")
    coloured = comparison_text(comparison, colour=True)

    assert "\x1b[31m[-x⏎\x1b[0m\n        | \x1b[31my-]\x1b[0m\x1b[32m{+c+}\x1b[0m" in coloured
    assert comparison_text(comparison) == _ANSI.sub("", coloured)


hostile = st.text(alphabet=st.sampled_from("ab \n\r\t\x1b[-]{+}\x00\x07\x9b\u2028\u202e\ud800é")) | st.text()


@given(hostile, hostile)
def test_no_text_of_a_call_reaches_the_terminal_raw(before: str, after: str) -> None:
    """Whatever stands in a prompt, a key, a role, a tool or an answer, only printable characters are shown."""
    old, new = (
        ComparedCall(
            {
                text: 1,
                "prompt": text,
                "messages": [{"role": text, text: text}],
                "tools": [{"name": text, text: [text]}],
            },
            ComparedAnswer(
                (ComparedChoice(text, text, text, (ToolCall(text, {text: text}),), {text: text}),), {text: text}, text
            ),
        )
        for text in (before, after)
    )

    for line in comparison_text(compare(old, new)).split("\n"):
        assert line.isprintable()


@given(hostile, hostile)
def test_full_shows_every_word_of_an_edit(before: str, after: str) -> None:
    """On both sides."""
    comparison = _answers(f"{before} one", f"{after} two")
    text = comparison_text(comparison, full=True)

    (choice,) = comparison.answer.choices
    assert choice.text is not None
    assert choice.text.text is not None
    edits = " ".join(f"{edit.before} {edit.after}" for edit in choice.text.text.edits)
    assert [] == [word for word in re.findall(r"[ab]+", edits) if word not in text]


def test_a_long_value_is_cut_unless_full_is_set() -> None:
    """A value that is not prose is shown on one line."""
    comparison = _requests({"x": "a" * 500}, {"x": "b" * 500})

    assert 300 > len(_last_line(comparison))
    assert "b" * 500 in _last_line(comparison, full=True)
