"""What changed between two calls, and what kind of change it is. Pure.

Each name is imported when it is asked for: who only reads calls need not wait for what compares them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceforge.compare.answer_diff import AnswerDiff, ChoiceDiff, ToolCallChange
    from traceforge.compare.classification import RULES, Change, value_text
    from traceforge.compare.compared_call import Answer, Call, Choice, ToolCall
    from traceforge.compare.comparison import Comparison, compare
    from traceforge.compare.edit_digest import edit_key
    from traceforge.compare.json_diff import ABSENT, Absent, Row
    from traceforge.compare.request_diff import ItemChange, RequestDiff
    from traceforge.compare.text_diff import Stretch, TextDiff, count_words, word_diff

__all__ = [
    "ABSENT",
    "RULES",
    "Absent",
    "Answer",
    "AnswerDiff",
    "Call",
    "Change",
    "Choice",
    "ChoiceDiff",
    "Comparison",
    "ItemChange",
    "RequestDiff",
    "Row",
    "Stretch",
    "TextDiff",
    "ToolCall",
    "ToolCallChange",
    "compare",
    "count_words",
    "edit_key",
    "value_text",
    "word_diff",
]

_MODULES = {
    "answer_diff": (
        "AnswerDiff",
        "ChoiceDiff",
        "ToolCallChange",
    ),
    "compared_call": (
        "Answer",
        "Call",
        "Choice",
        "ToolCall",
    ),
    "classification": (
        "RULES",
        "Change",
        "value_text",
    ),
    "comparison": (
        "Comparison",
        "compare",
    ),
    "edit_digest": ("edit_key",),
    "request_diff": (
        "ItemChange",
        "RequestDiff",
    ),
    "json_diff": (
        "ABSENT",
        "Absent",
        "Row",
    ),
    "text_diff": (
        "Stretch",
        "TextDiff",
        "count_words",
        "word_diff",
    ),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
