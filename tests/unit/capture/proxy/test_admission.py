"""Which requests reach an upstream."""

from __future__ import annotations

import asyncio

import pytest

from traceforge.capture.proxy.admission import Admission, admit
from traceforge.capture.proxy.upstream_routes import Route, UpstreamRoutes
from traceforge.capture.proxy.worker_state import WorkerState
from traceforge.http.access import AccessPolicy
from traceforge.http.message_head import RequestHead
from traceforge.http.plain_response import PlainResponse

ANY_ORIGIN = "/@https/api.example.com/v1/x"


def admit_target(target: str, path_token: str) -> Admission:
    """A request of our own user."""

    async def ask() -> Admission:
        access = AccessPolicy("127.0.0.1", path_token=path_token)
        head = RequestHead(f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return admit(WorkerState(UpstreamRoutes({}), access, None), head, lambda: True)

    return asyncio.run(ask())


def test_a_request_with_the_token_of_the_run_may_name_its_origin() -> None:
    """As the hook in Node.js does."""
    result = admit_target(f"/secret{ANY_ORIGIN}", "secret").result

    assert isinstance(result, Route)
    assert "https://api.example.com/v1/x" == result.url


@pytest.mark.parametrize("path_token", ["secret", ""])
def test_a_request_without_a_token_may_not_name_its_origin(path_token: str) -> None:
    """Neither where a process of our user lost the token, nor at a proxy that has none: it is no open proxy."""
    result = admit_target(ANY_ORIGIN, path_token).result

    assert isinstance(result, PlainResponse)
    assert 404 == result.status


def test_a_request_that_lost_the_token_still_reaches_its_upstream() -> None:
    """For clients that use only the host and the port of a base URL."""
    assert isinstance(admit_target("/openai/v1/models", "secret").result, Route)
