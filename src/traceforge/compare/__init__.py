"""What changed between two calls, and what kind of change it is. Pure.

Each name is imported when it is asked for: who only reads calls need not wait for what compares them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceforge.compare.answer_diff import AnswerDiff, ChoiceDiff, ToolCallChange
    from traceforge.compare.classification import RULES, ClassifiedChange, value_text
    from traceforge.compare.compared_call import ComparedAnswer, ComparedCall, ComparedChoice, ToolCall
    from traceforge.compare.comparison import Comparison, compare
    from traceforge.compare.edit_digest import digest_edit
    from traceforge.compare.json_diff import ABSENT, Absent, ValueChange
    from traceforge.compare.request_diff import ItemChange, RequestDiff
    from traceforge.compare.text_diff import TextDiff, TextSegment, count_words, diff_words

__all__ = [
    "ABSENT",
    "RULES",
    "Absent",
    "AnswerDiff",
    "ChoiceDiff",
    "ClassifiedChange",
    "ComparedAnswer",
    "ComparedCall",
    "ComparedChoice",
    "Comparison",
    "ItemChange",
    "RequestDiff",
    "TextDiff",
    "TextSegment",
    "ToolCall",
    "ToolCallChange",
    "ValueChange",
    "compare",
    "count_words",
    "diff_words",
    "digest_edit",
    "value_text",
]

_MODULES = {
    "answer_diff": (
        "AnswerDiff",
        "ChoiceDiff",
        "ToolCallChange",
    ),
    "classification": (
        "RULES",
        "ClassifiedChange",
        "value_text",
    ),
    "compared_call": (
        "ComparedAnswer",
        "ComparedCall",
        "ComparedChoice",
        "ToolCall",
    ),
    "comparison": (
        "Comparison",
        "compare",
    ),
    "edit_digest": ("digest_edit",),
    "json_diff": (
        "ABSENT",
        "Absent",
        "ValueChange",
    ),
    "request_diff": (
        "ItemChange",
        "RequestDiff",
    ),
    "text_diff": (
        "TextSegment",
        "TextDiff",
        "count_words",
        "diff_words",
    ),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
