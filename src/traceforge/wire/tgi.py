"""Text Generation Inference of Hugging Face, and its hosted inference: `inputs` and `parameters`.

In: bodies, events of `/generate_stream`. Out: the unified view, and back. Never: I/O; takes the body of another
server with a path such as `/generate` for one of these: what has no `generated_text` stays as it is.

    /generate          {"inputs", "parameters"}, answered with {"generated_text", "details"}
    /generate_stream   the same, answered with an event for each token; the last one has the whole text
    /models/NAME       hosted inference: the same body, answered with a list of such texts, or with a vector
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_BASE,
    BodyCodec,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.embeddings import list_vectors
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, sse_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_choice,
    build_message,
    build_response,
    build_usage,
    is_number,
    list_objects,
    provider_fields,
    sum_numbers,
    without_fields,
)

DIALECT = DialectDeclaration(
    name="tgi",
    endpoints=(
        EndpointPath(r"/generate_stream/?", EndpointKind.GENERATE, codec=":GENERATE"),
        EndpointPath(r"/generate/?", EndpointKind.GENERATE, AFTER_BASE, ":GENERATE", only_where_watched=True),
        EndpointPath(
            r"/models/(?P<model>[^/]+(?:/[^/]+)?)(?:/pipeline/[a-z-]+)?/?",
            EndpointKind.GENERATE,
            r"\A(?:/hf-inference)?",
            ":GENERATE",
            only_at_hosts=True,
        ),
    ),
    hosts=("api-inference.huggingface.co", "router.huggingface.co"),
    host_endings=(".endpoints.huggingface.cloud",),
    api_key=KeyHeader(("HF_TOKEN",), "authorization", "Bearer "),
    base_path=r"/(?:generate|generate_stream)/?\Z",
)

FINISH_REASONS = {"length": "length", "eos_token": "stop", "stop_sequence": "stop"}
_NATIVE_REASONS = {"stop": "eos_token", "length": "length"}
_PARAMETERS = {
    "max_new_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
}
_TEXT_FIELDS = ("generated_text", "details")


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: `inputs` is the prompt, and the parameters get OpenAI's names."""
    unified: JSONObject = {"prompt": body["inputs"], **body} if "inputs" in body else dict(body)
    for name, value in as_object(body.get("parameters")).items():
        if name in _PARAMETERS and value is not None:
            unified[_PARAMETERS[name]] = value
    return unified


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of a generated text, or of vectors; what is neither stays as it is."""
    vectors = body.get("embeddings")
    if isinstance(vectors, list) and "generated_text" not in body:
        return list_vectors(vectors, without_fields(body, ("embeddings",)))
    if "generated_text" not in body:
        return {"object": "other", **body}
    details = as_object(body.get("details"))
    text = body["generated_text"]
    message = build_message(content=text if isinstance(text, str) else None, tool_calls=[], parts=None)
    return build_response(
        answer_id=None,
        model=None,
        created=None,
        choices=[build_choice(message, details.get("finish_reason"), FINISH_REASONS)],
        usage=_usage(details),
        extra=without_fields(body, _TEXT_FIELDS),
    )


def _usage(details: JSONObject) -> JSONObject | None:
    """The tokens of an answer with details; those of the prompt where they are counted or listed."""
    if not details:
        return None
    prompt = sum_numbers(details, "input_length", "prompt_tokens")
    listed = details.get("prefill")
    if prompt is None and isinstance(listed, list) and listed:
        prompt = len(listed)
    return build_usage(details, prompt=prompt, completion=sum_numbers(details, "generated_tokens"))


def decode_list(body: list[JSON]) -> JSONObject:
    """The first of several texts, which are in a list even if there is one; or the vectors of an embedding."""
    texts = list_objects(body)
    if texts and "generated_text" in texts[0]:
        return {**texts[0], **({"others": cast("JSON", texts[1:])} if texts[1:] else {})}
    if body and all(is_number(item) for item in body):
        return {"embeddings": [body]}
    if body and all(isinstance(item, list) for item in body):
        return {"embeddings": body}
    return {"items": body}


def encode_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    choices = list_objects(unified.get("choices"))
    if not choices:
        vectors: list[JSON] = [item.get("embedding") for item in list_objects(unified.get("data"))]
        return without_fields(unified, ("object", "data")) | ({"embeddings": vectors} if vectors else {})
    reason = choices[0].get("provider_finish_reason", _NATIVE_REASONS.get(as_text(choices[0].get("finish_reason"))))
    body: JSONObject = {"generated_text": as_object(choices[0].get("message")).get("content")}
    native = as_object(unified.get("usage")).get("provider")
    if isinstance(native, dict):
        body["details"] = native
    elif reason is not None:
        body["details"] = {"finish_reason": reason}
    return {**body, **provider_fields(unified)}


class TokenAssembler(StreamAssembler):
    """Puts a text together from its tokens; the last event repeats it."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._is_known = False  # Another server may stream under the same path: its stream is not judged.

    def add_event(self, event: JSONObject, name: str = "") -> None:
        if "error" in event:
            self.add_error({"message": event["error"], "type": event.get("error_type")})
            return
        token = event.get("token")
        if not isinstance(token, dict):
            self.count_unknown(name or "event without a token")
            return
        self._is_known = True
        if not token.get("special"):
            self._text += as_text(token.get("text"))
        self.body.update(without_fields(event, ("token", "index", *_TEXT_FIELDS)))
        if isinstance(event.get("generated_text"), str):
            self.is_complete = True
            self._text = as_text(event["generated_text"])
        if isinstance(event.get("details"), dict):
            self.body["details"] = event["details"]

    def finish(self) -> JSONObject:
        """The text, as far as it came."""
        if not self._is_known:
            self.is_complete = not self.has_failed
            return self.body
        return {"generated_text": self._text, **self.body}


new_assembler = TokenAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """One event, which has the whole text as its token."""
    body = encode_response(unified)
    if "generated_text" not in body:
        return [sse_frame(body)]
    token: JSONObject = {"id": 0, "text": body["generated_text"], "logprob": 0, "special": False}
    return [sse_frame({"index": 1, "token": token, "details": None, **body})]


GENERATE = BodyCodec(decode_request, decode_response, encode_response, encode_stream, new_assembler, decode_list)
