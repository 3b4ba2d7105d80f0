"""Mistral: what its API has beside OpenAI's chat and embeddings, which it shares.

In: bodies and chunks. Out: the unified view. Never: I/O; reads a chat completion, which `openai/chat` does.

    /v1/fim/completions       `prompt` and `suffix`, answered with a chat completion
    /v1/agents/completions    messages, and an agent in place of a model
    /v1/ocr                   a document, answered with pages of Markdown
    /v1/moderations, /v1/classifications, and both of a chat: `results`, each with a score for each category
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_ANYTHING,
    AFTER_VERSION,
    BodyCodec,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.openai import chat
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_message,
    build_response,
    build_usage,
    list_objects,
    sum_numbers,
    without_fields,
)

DIALECT = DialectDeclaration(
    name="mistral",
    endpoints=(
        EndpointPath(r"/fim/completions/?", EndpointKind.FILL_IN, AFTER_VERSION),
        EndpointPath(r"\A/v1/agents/completions/?", EndpointKind.CHAT, AFTER_ANYTHING, only_at_hosts=True),
        EndpointPath(r"\A/v1/ocr/?", EndpointKind.OCR, AFTER_ANYTHING, ":OCR", only_at_hosts=True),
        EndpointPath(
            r"\A/v1/(?:chat/)?(?:moderations|classifications)/?",
            EndpointKind.CLASSIFICATION,
            AFTER_ANYTHING,
            ":CLASSIFICATION",
            only_at_hosts=True,
        ),
    ),
    hosts=("api.mistral.ai", "api.eu.mistral.ai", "api.us.mistral.ai", "codestral.mistral.ai"),
    api_key=KeyHeader(("MISTRAL_API_KEY",), "authorization", "Bearer "),
    base_path=r"/(?:fim|agents)/completions/?\Z",
)


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request; an agent is what answers where no model is named."""
    unified = chat.decode_request(body, model)
    if "model" not in body and isinstance(body.get("agent_id"), str):
        unified["model"] = body["agent_id"]
    return unified


decode_response = chat.decode_response
encode_response = chat.encode_response
encode_stream = chat.encode_stream
new_assembler = chat.new_assembler


def _decode_ocr_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: `input` is the document."""
    return {**body, "input": body.get("input", body.get("document"))}


def _decode_ocr_response(body: JSONObject) -> JSONObject:
    """The unified response: the pages are its text, and `pages` what they came as."""
    pages = list_objects(body.get("pages"))
    message = build_message(
        content="\n\n".join(as_text(page.get("markdown")) for page in pages) if pages else None,
        tool_calls=[],
        parts=None,
    )
    return build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[{"index": 0, "message": message, "finish_reason": "stop"}],
        usage=_ocr_usage(body.get("usage_info")),
        extra=without_fields(body, ("usage_info",)),
    )


def _ocr_usage(usage: JSON) -> JSONObject | None:
    """Pages and bytes are counted, and tokens by some models alone."""
    if not isinstance(usage, dict):
        return None
    return build_usage(
        usage,
        prompt=sum_numbers(usage, "prompt_tokens"),
        completion=sum_numbers(usage, "completion_tokens"),
        total=sum_numbers(usage, "total_tokens"),
    )


def _encode_ocr_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    body = without_fields(unified, ("object", "created", "choices", "usage"))
    if "pages" not in body:
        messages = [as_object(choice.get("message")) for choice in list_objects(unified.get("choices"))]
        body["pages"] = [
            {"index": place, "markdown": message.get("content")} for place, message in enumerate(messages)
        ]
    if isinstance(unified.get("usage"), dict):
        body["usage_info"] = as_object(unified["usage"]).get("provider")
    return {name: value for name, value in body.items() if value is not None}


def _decode_classification_request(body: JSONObject, model: str = "") -> JSONObject:
    return dict(body)


def _decode_classification_response(body: JSONObject) -> JSONObject:
    """The unified response: `results` in the order of the inputs, as they came."""
    unified: JSONObject = {"object": "classification", **body}
    usage = body.get("usage")
    if isinstance(usage, dict):
        prompt = sum_numbers(usage, "prompt_tokens")
        unified["usage"] = build_usage(usage, prompt=prompt, completion=sum_numbers(usage, "completion_tokens") or 0)
    return unified


def _encode_classification_response(unified: JSONObject) -> JSONObject:
    body = without_fields(unified, ("object", "usage"))
    if isinstance(unified.get("usage"), dict):
        body["usage"] = cast("JSONObject", unified["usage"]).get("provider")
    return body


OCR = BodyCodec(_decode_ocr_request, _decode_ocr_response, _encode_ocr_response, encode_stream, new_assembler)
CLASSIFICATION = BodyCodec(
    _decode_classification_request,
    _decode_classification_response,
    _encode_classification_response,
    encode_stream,
    new_assembler,
)
