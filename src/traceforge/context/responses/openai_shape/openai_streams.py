"""Streams in the format of OpenAI.

In: texts as they arrive, then the complete answer. Out: the frames of server-sent events, in OpenAI's order. Never:
waits for a text, or sends one twice: everything that is not text, such as tool calls, is sent at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.canon import JSON, JSONObject
from traceforge.context.responses.openai_shape.openai_answers import (
    AnswerHeading,
    OpenAIAnswer,
    chat_head,
    chat_usage,
    response_object,
)
from traceforge.context.responses.openai_shape.openai_requests import OpenAIRequest
from traceforge.wire.stream_assembly import StreamFrame, sse_frame
from traceforge.wire.unified import as_text, list_objects

DONE_FRAME = StreamFrame(b"data: [DONE]\n\n")
_NOTHING = OpenAIAnswer({"role": "assistant", "content": ""})


def _with_streamed_text(answer: OpenAIAnswer, streamed_text: str) -> OpenAIAnswer:
    """The answer with the text that was streamed, if it has no text itself."""
    if streamed_text and not answer.message.get("content"):
        return answer._replace(message={**answer.message, "content": streamed_text})
    return answer


class ChatFrames:
    """The chunks of a chat completion: `start`, `text` for each piece, and `finish` or `fail`."""

    def __init__(self, heading: AnswerHeading, request: OpenAIRequest) -> None:
        self._head = chat_head(heading, "chat.completion.chunk")
        self._usage: JSONObject = {"usage": None} if request.include_usage else {}
        self._sent_text = ""

    def start(self) -> list[StreamFrame]:
        """The chunk with the role."""
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def text(self, piece: str) -> list[StreamFrame]:
        """The chunk of a text."""
        self._sent_text += piece
        return [self._chunk({"content": piece})] if piece else []

    def finish(self, answer: OpenAIAnswer) -> list[StreamFrame]:
        """The rest of the answer, the finish reason, the usage if it was requested, and `[DONE]`."""
        frames: list[StreamFrame] = []
        plain = _with_streamed_text(answer, self._sent_text).plain()
        content = as_text(plain["content"])
        if content.startswith(self._sent_text):
            frames += self.text(content.removeprefix(self._sent_text))
        if isinstance(plain["refusal"], str):
            frames.append(self._chunk({"refusal": plain["refusal"]}))
        calls = list_objects(plain.get("tool_calls"))
        frames += [self._chunk({"tool_calls": [{"index": place, **call}]}) for place, call in enumerate(calls)]
        frames.append(self._chunk({}, answer.finish))
        if self._usage:
            frames.append(sse_frame({**self._head, "choices": [], "usage": chat_usage(answer)}))
        return [*frames, DONE_FRAME]

    def fail(self, code: str, message: str) -> list[StreamFrame]:
        """The frames that end a stream with an error."""
        return [sse_frame({"error": {"message": message, "type": "server_error", "code": code, "param": None}})]

    def _chunk(self, delta: JSONObject, finish: str | None = None) -> StreamFrame:
        choice: JSONObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse_frame({**self._head, "choices": [choice], **self._usage})


class ResponseFrames:
    """The events of a response: `start`, `text` for each piece, and `finish` or `fail`."""

    def __init__(self, heading: AnswerHeading, request: OpenAIRequest) -> None:
        self._heading = heading
        self._request = request
        self._number = 0
        self._sent_text = ""
        self._opened = False
        (self._item,) = list_objects(
            response_object(heading, request, _NOTHING)["output"]
        )  # The output item of the text.

    def start(self) -> list[StreamFrame]:
        """The events `response.created` and `response.in_progress`."""
        begun = self._body(_NOTHING, "in_progress")
        return [self._event(f"response.{kind}", response=begun) for kind in ("created", "in_progress")]

    def text(self, piece: str) -> list[StreamFrame]:
        """The events of a text; the first one opens the message."""
        if not piece:
            return []
        frames: list[StreamFrame] = []
        if not self._opened:
            frames += [*self._open(0, self._item), *self._open_part(0, 0, self._item)]
            self._opened = True
        self._sent_text += piece
        return [*frames, self._delta("output_text", self._item, 0, 0, piece)]

    def finish(self, answer: OpenAIAnswer) -> list[StreamFrame]:
        """The rest of each item, and the complete response."""
        body = response_object(self._heading, self._request, _with_streamed_text(answer, self._sent_text))
        frames = [
            frame
            for place, item in enumerate(list_objects(body["output"]))
            for frame in (self._message(place, item) if item.get("type") == "message" else self._call(place, item))
        ]
        return [*frames, self._event(f"response.{as_text(body['status'])}", response=body)]

    def fail(self, code: str, message: str) -> list[StreamFrame]:
        """The frames that end a stream with an error."""
        failed: JSONObject = {**self._body(_NOTHING, "failed"), "error": {"code": code, "message": message}}
        return [self._event("response.failed", response=failed)]

    def _body(self, answer: OpenAIAnswer, status: str) -> JSONObject:
        body = response_object(self._heading, self._request, answer)
        return {**body, "status": status, "output": [], "usage": None}

    def _event(self, kind: str, **fields: JSON) -> StreamFrame:
        number, self._number = self._number, self._number + 1
        return sse_frame({"type": kind, "sequence_number": number, **fields}, kind)

    def _open(self, place: int, item: JSONObject) -> list[StreamFrame]:
        empty: JSONObject = {"content": []} if item.get("type") == "message" else {"arguments": ""}
        opened: JSONObject = {**item, "status": "in_progress", **empty}
        return [self._event("response.output_item.added", output_index=place, item=opened)]

    def _open_part(self, place: int, number: int, item: JSONObject) -> list[StreamFrame]:
        part = list_objects(item["content"])[number]
        field = "text" if part["type"] == "output_text" else "refusal"
        return [self._about("content_part.added", item, place, content_index=number, part={**part, field: ""})]

    def _about(self, kind: str, item: JSONObject, place: int, **fields: JSON) -> StreamFrame:
        return self._event(f"response.{kind}", item_id=item["id"], output_index=place, **fields)

    def _delta(self, kind: str, item: JSONObject, place: int, number: int, piece: str) -> StreamFrame:
        extra: JSONObject = {"logprobs": []} if kind == "output_text" else {}
        return self._about(f"{kind}.delta", item, place, content_index=number, delta=piece, **extra)

    def _message(self, place: int, item: JSONObject) -> Iterator[StreamFrame]:
        opened = self._opened and place == 0
        if not opened:
            yield from self._open(place, item)
        for number, part in enumerate(list_objects(item["content"])):
            kind = as_text(part["type"])
            field = "text" if kind == "output_text" else "refusal"
            text = as_text(part[field])
            unsent_text = text
            if opened and number == 0:
                unsent_text = text.removeprefix(self._sent_text) if text.startswith(self._sent_text) else ""
            else:
                yield from self._open_part(place, number, item)
            if unsent_text:
                yield self._delta(kind, item, place, number, unsent_text)
            extra: JSONObject = {"logprobs": []} if kind == "output_text" else {}
            yield self._about(f"{kind}.done", item, place, content_index=number, **{field: text}, **extra)
            yield self._about("content_part.done", item, place, content_index=number, part=part)
        yield self._event("response.output_item.done", output_index=place, item=item)

    def _call(self, place: int, item: JSONObject) -> Iterator[StreamFrame]:
        yield from self._open(place, item)
        if item.get("type") == "function_call":
            written = item["arguments"]
            kind = "function_call_arguments"
            yield self._about(f"{kind}.delta", item, place, delta=written)
            yield self._about(f"{kind}.done", item, place, name=item["name"], arguments=written)
        yield self._event("response.output_item.done", output_index=place, item=item)
