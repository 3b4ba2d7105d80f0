"""OpenAI's chat completions and Responses, exactly: requests in, answers and streams out. Pure."""

from traceforge.context.responses.openai_shape.openai_answers import (
    Heading,
    Said,
    chat_completion,
    response_object,
    said_of,
)
from traceforge.context.responses.openai_shape.openai_requests import Asked, Item, items_of, read_chat, read_responses
from traceforge.context.responses.openai_shape.openai_streams import ChatStream, ResponseStream

__all__ = [
    "Asked",
    "ChatStream",
    "Heading",
    "Item",
    "ResponseStream",
    "Said",
    "chat_completion",
    "items_of",
    "read_chat",
    "read_responses",
    "response_object",
    "said_of",
]
