"""Content of the context store as messages and as one line.

In: the content of an event, a block or a response. Out: a message of the unified view for `conversation_view`, or the
beginning of its text. Never: leaves a field out: anything but a message is shown as it is stored.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.context.model.objects import Event
from traceforge.report.context_text import clip, event_text

LINE_CHARS = 120  # Of a content in a row of a list.
LABEL_CHARS = 40  # Of the name of a branch.

_MESSAGE_FIELDS = ("content", "tool_calls", "tool_call_id", "refusal", "reasoning")


def as_message(role: str, content: JSON) -> JSONObject:
    """A content as a message. A stored message keeps its fields; any other value is the content of one."""
    if isinstance(content, dict) and any(name in content for name in _MESSAGE_FIELDS):
        return {**content, "role": role}
    return {"role": role, "content": content}


def event_line(event: Event, width: int = LINE_CHARS) -> str:
    """The beginning of an event in one line; of a purged one, its receipt."""
    return clip(event_text(event), width)


def branch_name(label: str, branch_id: str) -> str:
    """What a branch is called: its label, or the beginning of its id."""
    return clip(" ".join(label.split()), LABEL_CHARS) or branch_id[:12]


def title_words(name: str) -> str:
    """A name of the store in words: `user_message` is `user message`."""
    return name.replace("_", " ")
