"""Predictions of Replicate, whose inputs and outputs are what each model declares.

    /v1/predictions                      `version` and `input`, answered with a prediction
    /v1/models/OWNER/NAME/predictions    the same for an official model
    /v1/deployments/OWNER/NAME/predictions

In: bodies. Out: the unified view, and back. Never: I/O. The output of a language model is a list of texts, which are
one text in the view; an output of another kind stays what it is. A prediction that is not done has none yet: asking
for it again is a GET, which has no view.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_ANYTHING,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, sse_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_message,
    build_response,
    build_usage,
    list_objects,
    provider_fields,
    sum_numbers,
    without_fields,
)

DIALECT = DialectDeclaration(
    name="replicate",
    endpoints=(
        EndpointPath(
            r"\A/v1/(?:(?:models|deployments)/(?P<model>[^/]+/[^/]+)/)?predictions/?",
            EndpointKind.GENERATE,
            AFTER_ANYTHING,
            only_at_hosts=True,
        ),
    ),
    hosts=("api.replicate.com", "stream.replicate.com"),
    api_key=KeyHeader(("REPLICATE_API_TOKEN",), "authorization", "Bearer "),
    base_path=r"/v1/(?:(?:models|deployments)/[^/]+/[^/]+/)?predictions/?\Z",
)

FINISH_REASONS = {"succeeded": "stop", "canceled": "stop", "failed": "error"}
_PARAMETERS = {"max_tokens": "max_tokens", "max_new_tokens": "max_tokens", "temperature": "temperature",
               "top_p": "top_p", "seed": "seed"}  # fmt: skip
_COUNTS = ("input_token_count", "output_token_count")
_RESPONSE_FIELDS = ("id", "model", "output", "status", "metrics", "usage")


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: the prompt of the input, and the parameters of language models."""
    inputs = as_object(body.get("input"))
    unified: JSONObject = dict(body)
    for name, value in inputs.items():
        unified.setdefault(_PARAMETERS.get(name, name), value)
    system, prompt = inputs.get("system_prompt"), inputs.get("prompt")
    if isinstance(system, str) and isinstance(prompt, str) and "messages" not in unified:
        unified["messages"] = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    if not model and isinstance(body.get("version"), str):
        unified.setdefault("model", body["version"])
    return unified


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response: the text of the output; the whole output where it is more than a text."""
    output = body.get("output")
    text = _join_text(output)
    message = build_message(content=text, tool_calls=[], parts=None if output is None or text is not None else output)
    reason = body.get("status")
    choice: JSONObject = {
        "index": 0,
        "message": message,
        "finish_reason": FINISH_REASONS.get(as_text(reason)),
        "provider_finish_reason": reason,
    }
    return build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=_usage(body.get("metrics")),
        extra={**without_fields(body, _RESPONSE_FIELDS), **({"pieces": output} if isinstance(output, list) else {})},
    )


def _join_text(output: JSON) -> str | None:
    """The text of a language model; addresses of files, which other models put into a list, do not count."""
    if isinstance(output, str):
        return output
    pieces = [piece for piece in output if isinstance(piece, str)] if isinstance(output, list) else []
    if not pieces or not isinstance(output, list) or len(pieces) < len(output):
        return None
    return None if all(piece.startswith(("https://", "data:")) for piece in pieces) else "".join(pieces)


def _usage(metrics: JSON) -> JSONObject | None:
    """The tokens of a language model; other models count seconds."""
    if not isinstance(metrics, dict):
        return None
    prompt, completion = (sum_numbers(metrics, name) for name in _COUNTS)
    return build_usage(metrics, prompt=prompt, completion=completion)


def encode_response(unified: JSONObject) -> JSONObject:
    """The prediction that decodes to this unified response."""
    choice = next(iter(list_objects(unified.get("choices"))), {})
    message = as_object(choice.get("message"))
    status = choice.get("provider_finish_reason", "succeeded" if choice.get("finish_reason") else None)
    pieces = unified.get("pieces")
    output = pieces if isinstance(pieces, list) else message.get("content", None)
    body: JSONObject = {
        "id": unified.get("id"),
        "model": unified.get("model"),
        "status": status,
        "output": message.get("parts") if output is None else output,
    }
    native = as_object(unified.get("usage")).get("provider")
    if isinstance(native, dict):
        body["metrics"] = native
    return {**body, **without_fields(provider_fields(unified), ("pieces",))}


class PredictionAssembler(StreamAssembler):
    """The last event that is a prediction: no endpoint here streams, and what does is fetched with a GET."""

    def add_event(self, event: JSONObject, name: str = "") -> None:
        self.body = event
        self.is_complete = as_text(event.get("status")) in FINISH_REASONS

    def finish(self) -> JSONObject:
        return self.body


new_assembler = PredictionAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """One event, which is the prediction."""
    return [sse_frame(encode_response(unified))]
