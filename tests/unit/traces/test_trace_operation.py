"""The name of what a call does, from its trace."""

from __future__ import annotations

import pytest

from support.stored_traces import trace_id
from traceforge.canon import JSON
from traceforge.traces.trace_format import Trace


@pytest.mark.parametrize(
    ("wire", "endpoint", "request_body", "name"),
    [
        ({"url": "mcp://menu/tools/call"}, "/menu/tools/call", {"method": "tools/call", "params": {"name": "find"}},
         "tools/call find"),
        ({"url": "tool://find/call"}, "/find/call", {"tool": "find"}, "tool find"),
        ({"url": "https://example.com/v1/files", "method": "GET"}, "/v1/files", {"tool": "find"}, "files.list"),
        (None, "/v1/files", None, "files"),
        ([], "/page", None, ""),
    ],
)  # fmt: skip
def test_a_tool_is_named_after_its_request_and_an_api_after_its_address(
    wire: JSON, endpoint: str, request_body: JSON, name: str
) -> None:
    body = {"endpoint": endpoint, "wire": wire, "provider_request": request_body}

    assert name == Trace(trace_id(1), "2025-03-02T09:01:00.000Z", body).operation
