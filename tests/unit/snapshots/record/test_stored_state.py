"""What a request refers to that its provider stores."""

from __future__ import annotations

import pytest

from traceforge.canon import JSON
from traceforge.snapshots.record.stored_state import list_state_ids


@pytest.mark.parametrize(
    ("path", "query", "body", "ids"),
    [
        ("/v1/threads/thread_1/runs/run_2/steps", "", None, ["thread_1", "run_2"]),
        ("/v1/files", "after=file-9&limit=20", None, ["file-9"]),
        ("/upload/v1beta/files", "upload_id=AbC1&upload_protocol=resumable", "text", ["AbC1"]),
        ("/v1/batches", "", {"input_file_id": "file-1", "endpoint": "/v1/chat"}, ["file-1"]),
        ("/v1/x", "", {"a": [{"file": {"file_id": "file-1"}}], "vector_store_ids": ["vs_1", 7]}, ["file-1", "vs_1"]),
        (
            "/v1beta/models/gemini-2.5:generateContent",
            "",
            {"fileData": {"fileUri": "https://a/f1"}},
            ["https://a/f1"],
        ),
    ],
)
def test_ids_stand_in_the_path_the_query_and_the_body(path: str, query: str, body: JSON, ids: list[str]) -> None:
    assert ids == list_state_ids(path, query, body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models/gpt-4.1", None),
        ("/openai/deployments/gpt-4.1/chat/completions", {"tool_call_id": "call_1"}),
        ("/v1/projects/me-1/locations/eu-1/publishers/google/models/g-1:countTokens", {"id": "some-id"}),
        ("/v1/messages", {"messages": [{"content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}]}),
        ("/v1/batches", {"input_file_id": "f1"}),
    ],
)
def test_models_accounts_and_tool_calls_are_not_stored(path: str, body: JSON) -> None:
    """And what is too short to be an id."""
    assert [] == list_state_ids(path, "", body)
