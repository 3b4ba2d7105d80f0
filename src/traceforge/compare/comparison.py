"""Compare two calls.

In: two calls, already redacted. Out: one `Comparison` that holds every difference and the rules that apply. Never:
reads a file, asks a model, or depends on anything but the two calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceforge.canon import JSONObject
from traceforge.compare.answer_diff import AnswerDiff, diff_answer
from traceforge.compare.classification import ClassifiedChange, classify_answer, classify_request
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.json_diff import ValueChange
from traceforge.compare.request_diff import RequestDiff, diff_request


@dataclass(frozen=True)
class Comparison:
    """What changed from one call to another.

    `request` and `answer` hold the differences; `request_changes` and `answer_changes` the rules that apply to
    them. There is a difference if and only if a rule applies.
    """

    request: RequestDiff
    answer: AnswerDiff
    request_changes: tuple[ClassifiedChange, ...]
    answer_changes: tuple[ClassifiedChange, ...]

    @property
    def has_changed(self) -> bool:
        """Whether behaviour changed: the request or the answer."""
        return bool(self.request_changes or self.answer_changes)

    @property
    def changes(self) -> tuple[ClassifiedChange, ...]:
        """Every rule that applies, those about the request first."""
        return self.request_changes + self.answer_changes

    @property
    def parameters(self) -> tuple[ValueChange, ...]:
        """The table of settings: model, parameters, format and the use of tools."""
        return self.request.table

    def to_json(self) -> JSONObject:
        """The whole comparison as JSON; texts come as stretches that give both back."""
        return {
            "changed": self.has_changed,
            "changes": [change.to_json() for change in self.changes],
            "request": self.request.to_json(),
            "answer": self.answer.to_json(),
        }


def compare(before: ComparedCall, after: ComparedCall) -> Comparison:
    """Find what changed from `before` to `after`, and say what kind of change it is."""
    request = diff_request(before.request, after.request)
    answer = diff_answer(before.answer, after.answer)
    return Comparison(request, answer, classify_request(request), classify_answer(answer))
