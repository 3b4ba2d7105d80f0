"""OpenAI's chat completions and Responses, exactly: requests in, answers and streams out. Pure."""

from traceforge.context.openai_shape.answers import Heading, Said, chat_completion, response_object, said_of
from traceforge.context.openai_shape.requests import Asked, Item, items_of, read_chat, read_responses
from traceforge.context.openai_shape.streams import ChatStream, ResponseStream

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
