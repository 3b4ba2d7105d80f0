"""OpenAI's chat completions and Responses API: reads requests, writes answers and streams. No I/O."""

from traceforge.context.responses.openai_shape.openai_answers import (
    AnswerHeading,
    OpenAIAnswer,
    chat_completion,
    read_answer,
    response_object,
)
from traceforge.context.responses.openai_shape.openai_requests import (
    ConversationItem,
    OpenAIRequest,
    read_chat,
    read_responses,
    to_items,
)
from traceforge.context.responses.openai_shape.openai_streams import ChatFrames, ResponseFrames

__all__ = [
    "AnswerHeading",
    "ChatFrames",
    "ConversationItem",
    "OpenAIAnswer",
    "OpenAIRequest",
    "ResponseFrames",
    "chat_completion",
    "read_answer",
    "read_chat",
    "read_responses",
    "response_object",
    "to_items",
]
