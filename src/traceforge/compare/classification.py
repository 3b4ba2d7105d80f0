"""What kind of change it is, by rules with an id.

In: the differences of two requests and two answers. Out: the rules that apply, each with the reason. Never: guesses,
weighs or asks a model: the same differences give the same result on every machine.

At least one rule applies to every difference, and none applies where nothing differs.
docs/explanation/how-changes-are-classified.md has an example for each; an id never gets a second meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from traceforge.canon import JSONObject, exact_ecmascript_bytes
from traceforge.compare.answer_diff import AnswerDiff, ChoiceDiff
from traceforge.compare.compared_call import ComparedChoice
from traceforge.compare.facts import compare_facts
from traceforge.compare.json_diff import Absent, Side, ValueChange
from traceforge.compare.refusal_signs import find_refusal_sign
from traceforge.compare.request_diff import ItemChange, RequestDiff
from traceforge.compare.text_diff import count_words, has_same_text_without_space
from traceforge.compare.text_layout import describe_layout_change

LENGTH_RATIO = 1.5  # An answer half as long again, or cut to two thirds: below, answers vary from run to run.
LENGTH_WORDS_MIN = 20  # `Yes.` and `Yes, it is.` differ by a factor of three and by nothing that matters.
LENGTH_FINISH_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"})
SHOWN_MAX = 3  # As many examples as fit a line; the rest is counted.
VALUE_CHARS_MAX = 40
# In the response of an MCP server, perhaps after notifications; no provider of models has it there.
_TOOL_LIST = re.compile(
    r"\$\.response(?:\.body\.messages\[\d+\])?\.result\.(?:tools|prompts|resources|resourceTemplates)\b"
)

RULES: dict[str, str] = {
    "request.prompt": "The prompt changed.",
    "request.model": "The model changed.",
    "request.parameters": "A parameter changed.",
    "request.tools": "The tools that the model may use changed.",
    "request.format": "The requested format of the answer changed.",
    "answer.absent": "Only one of the two calls has an answer.",
    "answer.refusal": "The answer became a refusal, or is no longer one.",
    "answer.tools": "The model's tool calls changed.",
    "answer.format": "The format of the answer changed.",
    "answer.facts": "A number, date, link or name differs.",
    "answer.wording": "The words changed; numbers, dates, links and names are the same.",
    "answer.space": "Only white space differs.",
    "answer.length": "The answer is much longer or shorter.",
    "answer.finish": "The finish reason changed.",
    "answer.tool_list": "What a tool server offers changed, which a model sees.",
    "answer.other": "Another field of the answer changed.",
}


@dataclass(frozen=True)
class ClassifiedChange:
    """One rule that applies: its id, why, and where."""

    rule: str
    because: str
    path: str

    @property
    def sentence(self) -> str:
        """The rule in one sentence."""
        return RULES[self.rule]

    def to_json(self) -> JSONObject:
        """The change as every `--json` report prints it."""
        return {"rule": self.rule, "sentence": self.sentence, "because": self.because, "path": self.path}


def classify_request(diff: RequestDiff) -> tuple[ClassifiedChange, ...]:
    """The rules that apply to a request, in the order of RULES."""
    changes: list[ClassifiedChange] = []
    if diff.messages or diff.prompt:
        changes.append(
            ClassifiedChange("request.prompt", _prompt_reason(diff), _first_path(diff.messages, diff.prompt))
        )
    if diff.model:
        changes.append(ClassifiedChange("request.model", _rows_reason(diff.model), _first_path(diff.model)))
    if diff.parameters:
        changes.append(
            ClassifiedChange("request.parameters", _rows_reason(diff.parameters), _first_path(diff.parameters))
        )
    if diff.tools or diff.tool_settings:
        reasons = [*_items_reasons(diff.tools), *([_rows_reason(diff.tool_settings)] if diff.tool_settings else [])]
        changes.append(
            ClassifiedChange("request.tools", "; ".join(reasons), _first_path(diff.tools, diff.tool_settings))
        )
    if diff.format:
        changes.append(ClassifiedChange("request.format", _rows_reason(diff.format), _first_path(diff.format)))
    return tuple(changes)


def classify_answer(diff: AnswerDiff) -> tuple[ClassifiedChange, ...]:
    """The rules that apply to an answer, in the order of RULES; each at most once per choice."""
    changes: list[ClassifiedChange] = []
    if diff.presence:
        reason = "there was no answer before" if diff.presence == "appeared" else "there is no answer now"
        changes.append(ClassifiedChange("answer.absent", reason, "$.response"))
    for choice in diff.choices:
        changes += _choice_changes(choice)
    listed = [row for row in diff.other if _TOOL_LIST.match(row.path)]
    other = [row for row in diff.other if not _TOOL_LIST.match(row.path)]
    for rule, rows in (("answer.tool_list", listed), ("answer.other", other)):
        if rows:
            changes.append(ClassifiedChange(rule, _rows_reason(rows), _first_path(rows)))
    order = list(RULES)
    return tuple(sorted(changes, key=lambda change: order.index(change.rule)))


def value_text(value: Side, chars_max: int = VALUE_CHARS_MAX) -> str:
    """A value as JSON text, cut to fit a line; `absent` for what is not there."""
    if isinstance(value, Absent):
        return "absent"
    text = exact_ecmascript_bytes(value).decode()
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _prompt_reason(diff: RequestDiff) -> str:
    rows = [*diff.prompt, *(row for change in diff.messages for row in change.rows)]
    have_same_messages = all(change.rows for change in diff.messages)
    if have_same_messages and all(_only_space(row) for row in rows):
        return "only white space differs"
    if have_same_messages and all(
        row.path.endswith((".id", ".tool_call_id", ".call_id", ".tool_use_id")) for row in rows
    ):
        return "only ids of tool calls differ"
    reasons = [f"{change.path} ({change.name or 'no role'}) {change.kind}" for change in diff.messages]
    return _join_reasons([*reasons, *(f"{row.path} {_verb(row)}" for row in diff.prompt)])


def _items_reasons(changes: Sequence[ItemChange]) -> list[str]:
    return [_join_reasons([f"{change.name or change.path} {change.kind}" for change in changes])] if changes else []


def _rows_reason(rows: Sequence[ValueChange]) -> str:
    return _join_reasons([f"{row.path}: {value_text(row.before)} → {value_text(row.after)}" for row in rows])


def _join_reasons(reasons: Sequence[str]) -> str:
    more = f" and {len(reasons) - SHOWN_MAX} more" if len(reasons) > SHOWN_MAX else ""
    return ", ".join(reasons[:SHOWN_MAX]) + more


def _verb(row: ValueChange) -> str:
    return "added" if isinstance(row.before, Absent) else "removed" if isinstance(row.after, Absent) else "changed"


def _only_space(row: ValueChange) -> bool:
    texts = row.before, row.after
    return isinstance(texts[0], str) and isinstance(texts[1], str) and has_same_text_without_space(texts[0], texts[1])


def _first_path(*groups: Iterable[ItemChange] | Iterable[ValueChange]) -> str:
    return next(entry.path for group in groups for entry in group)


def _choice_changes(diff: ChoiceDiff) -> Iterator[ClassifiedChange]:
    if diff.before is None or diff.after is None:
        yield ClassifiedChange(
            "answer.other", "a choice was added" if diff.before is None else "a choice was removed", diff.path
        )
        return
    yield from _refusal(diff.before, diff.after, diff.path)
    if diff.tool_calls:
        calls = _join_reasons(
            [f"{change.name or 'a call without a name'} {change.kind}" for change in diff.tool_calls]
        )
        yield ClassifiedChange("answer.tools", calls, f"{diff.path}.message.tool_calls")
    if diff.text:
        yield from _text_changes(diff.before.text, diff.after.text, diff.text.path)
    yield from _length(diff.before, diff.after, diff.path)
    if diff.finish_reason:
        yield ClassifiedChange("answer.finish", _rows_reason([diff.finish_reason]), diff.finish_reason.path)
    other = [*diff.other, *([diff.refusal] if diff.refusal else [])]
    if other:
        yield ClassifiedChange("answer.other", _rows_reason(other), other[0].path)


def _refusal(before: ComparedChoice, after: ComparedChoice, path: str) -> Iterator[ClassifiedChange]:
    old, new = find_refusal_sign(before), find_refusal_sign(after)
    if bool(old) != bool(new):
        reason = f"became a refusal: {new}" if new else f"is no longer a refusal: before, {old}"
        yield ClassifiedChange("answer.refusal", reason, path)


def _text_changes(before: str, after: str, path: str) -> Iterator[ClassifiedChange]:
    form = describe_layout_change(before, after)
    if form:
        yield ClassifiedChange("answer.format", form, path)
    facts = compare_facts(before, after)
    if facts:
        removed, added = (", ".join(side[:SHOWN_MAX]) or "nothing" for side in (facts.removed, facts.added))
        more = len(facts.removed[SHOWN_MAX:]) + len(facts.added[SHOWN_MAX:])
        yield ClassifiedChange("answer.facts", f"{removed} → {added}" + (f" and {more} more" if more else ""), path)
    if has_same_text_without_space(before, after):
        yield ClassifiedChange("answer.space", "the texts are equal once all white space is taken out", path)
    elif not facts and form != "the same JSON value in another spelling":
        yield ClassifiedChange("answer.wording", _wording_reason(before, after, facts.reordered), path)


def _wording_reason(before: str, after: str, reordered: bool) -> str:
    if _letters(before) == _letters(after):
        return "only punctuation or letter case differs"
    if reordered:
        return "the same numbers, dates, links and names, in another order"
    return "the same numbers, dates, links and names" if before and after else "one of the texts is empty"


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _length(before: ComparedChoice, after: ComparedChoice, path: str) -> Iterator[ClassifiedChange]:
    reason = after.finish_reason
    if isinstance(reason, str) and reason in LENGTH_FINISH_REASONS and reason != before.finish_reason:
        yield ClassifiedChange("answer.length", f"cut short: finish_reason is {reason}", path)
        return
    old, new = count_words(before.text), count_words(after.text)
    longer, shorter = max(old, new), min(old, new)
    if longer - shorter >= LENGTH_WORDS_MIN and longer >= LENGTH_RATIO * shorter:
        yield ClassifiedChange("answer.length", f"{old} words → {new} words", path)
