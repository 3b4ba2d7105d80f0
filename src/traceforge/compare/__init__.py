"""What changed between two calls, and what kind of change it is. Pure."""

from traceforge.compare.answer import AnswerDiff, ChoiceDiff, ToolCallChange
from traceforge.compare.call import Answer, Call, Choice, ToolCall
from traceforge.compare.classify import RULES, Change, value_text
from traceforge.compare.comparison import Comparison, compare
from traceforge.compare.edits import edit_key
from traceforge.compare.request import ItemChange, RequestDiff
from traceforge.compare.tree import ABSENT, Absent, Row
from traceforge.compare.words import Stretch, TextDiff, count_words, word_diff

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
