"""Names of operations that no dialect understands."""

from __future__ import annotations

import pytest

from traceforge.canon import JSON
from traceforge.wire.operation_names import PATH_LENGTH_MAX, name_operation, name_tool_operation

VERTEX = "/v1beta1/projects/me/locations/eu/publishers"
NAMES = [
    ("GET", "/v1/files", "files.list"),
    ("POST", "/v1/files", "files.create"),
    ("GET", "/v1/files/file-abc", "files.retrieve"),
    ("DELETE", "/v1/files/file-abc", "files.delete"),
    ("GET", "/v1/files/file-abc/content", "files.content"),
    ("HEAD", "/v1/files/abc", "files.head"),
    ("POST", "/v1/batches", "batches.create"),
    ("POST", "/v1/batches/batch_1/cancel", "batches.cancel"),
    ("GET", "/v1/responses/resp_1/input_items", "responses.input_items.list"),
    ("POST", "/v1/responses/input_tokens", "responses.input_tokens"),
    ("POST", "/v1/responses/compact", "responses.compact"),
    ("GET", "/v1/conversations/conv_1/items", "conversations.items.list"),
    ("POST", "/v1/threads/thread_1/runs/run_1/submit_tool_outputs", "threads.runs.submit_tool_outputs"),
    ("POST", "/v1/threads/thread_1", "threads.update"),
    ("POST", "/v1/vector_stores/vs_1/search", "vector_stores.search"),
    ("POST", "/v1/audio/speech", "audio.speech"),
    ("POST", "/openai/deployments/whisper/audio/transcriptions", "audio.transcriptions.create"),
    ("GET", "/inference/v1/models", "models.list"),
    ("GET", "/v1/models/meta-llama/Llama-3", "models.retrieve"),
    ("POST", "/v1/messages/count_tokens", "messages.count_tokens"),
    ("GET", "/v1/messages/batches/msgbatch_1/results", "messages.batches.results"),
    ("POST", "/v1beta/models/gemini-2.5-flash:countTokens", "models.countTokens"),
    ("POST", "/upload/v1beta/files", "files.upload"),
    ("POST", f"{VERTEX}/anthropic/models/count-tokens:rawPredict", "models.count_tokens"),
    ("POST", "/v1/projects/me/locations/eu/cachedContents", "cachedContents.create"),
    ("GET", "/v1/cachedContents/a1-b2", "cachedContents.retrieve"),
    ("GET", "/api/tags", "tags.list"),
    ("POST", "/api/pull", "pull"),
]


@pytest.mark.parametrize(("method", "path", "name"), NAMES)
def test_an_operation_has_the_name_that_an_sdk_gives_it(method: str, path: str, name: str) -> None:
    assert name == name_operation(method, path)


def test_without_a_method_it_has_no_verb() -> None:
    """In a list of traces, whose summaries have no method."""
    assert ["files", "files", "files.content", ""] == [
        name_operation("", f"/v1/{path}") for path in ("files", "files/f1", "files/f1/content", "responses")
    ]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"), ("POST", "/v1/embeddings"), ("POST", "/v1/messages"), ("GET", "/page"),
        ("GET", "/"), ("GET", ""), ("GET", "/v1/"), ("POST", "/v1/files/" + "v1/" * PATH_LENGTH_MAX),
    ],
)  # fmt: skip
def test_an_endpoint_of_a_dialect_and_a_page_have_none(method: str, path: str) -> None:
    """The first has the name of its model, and the second is no API."""
    assert "" == name_operation(method, path)


@pytest.mark.parametrize(
    ("request_body", "name"),
    [
        ({"method": "tools/call", "params": {"name": "find_dish", "arguments": {}}}, "tools/call find_dish"),
        ({"method": "resources/read", "params": {"uri": "file:///menu"}}, "resources/read file:///menu"),
        ({"method": "tools/list", "params": {"name": 7}}, "tools/list"),
        ({"method": "tools/list"}, "tools/list"),
        ({"tool": "find_dish", "arguments": {"name": "soup"}}, "tool find_dish"),
        ({"tool": 1, "method": []}, ""),
        ({"method": "tools/call", "params": "x"}, "tools/call"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_request_to_a_tool_is_named_after_the_tool(request_body: JSON, name: str) -> None:
    """Its path has the method alone, and an agent calls many tools from one line."""
    assert name == name_tool_operation(request_body)
