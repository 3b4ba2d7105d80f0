"""Which headers are compared, and what of their values: a table."""

from __future__ import annotations

import pytest

from traceforge.errors import InvalidConfig
from traceforge.exchange import Headers
from traceforge.replay.compared_headers import HeaderRules

RULES = HeaderRules()

IGNORED = (
    "Host", "connection", "Keep-Alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization",
    "proxy-anything", "via", "forwarded", "x-forwarded-for", "X-Forwarded-Proto", "content-length",
    "content-encoding", "accept-encoding", "date", "cookie", ":authority", ":method",
    "authorization", "x-api-key", "api-key", "x-goog-api-key", "ocp-apim-subscription-key", "x-auth-token",
    "helicone-auth", "cf-aig-authorization", "x-portkey-api-key",
    "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "amz-sdk-invocation-id", "amz-sdk-request",
    "user-agent", "x-stainless-lang", "x-stainless-retry-count", "x-stainless-read-timeout", "x-goog-api-client",
    "x-fern-sdk-version", "x-client-name", "x-server-timeout", "http-referer", "x-title",
    "traceparent", "tracestate", "baggage", "sentry-trace", "b3", "x-b3-traceid", "x-datadog-parent-id",
    "x-amzn-trace-id", "x-cloud-trace-context", "newrelic", "x-request-id", "x-client-request-id",
    "x-correlation-id", "idempotency-key", "x-ms-client-request-id", "mcp-session-id", "last-event-id",
    "openai-organization", "openai-project", "chatgpt-account-id", "x-goog-user-project",
)  # fmt: skip
COMPARED = (
    "x-tenant", "anthropic-version", "anthropic-beta", "openai-beta", "api-version", "x-goog-request-params",
    "helicone-cache-enabled", "x-portkey-config", "cf-aig-skip-cache", "openai-safety-mode", "accept-language",
    "anthropic-dangerous-direct-browser-access", "hosts", "viable", "x-b3", "x-max-tokens", "x-token-limit",
    "x-author", "x-routing-key", "prefer", "x-ms-azureml-model", "x-user",
)  # fmt: skip

SAME: list[tuple[Headers, Headers]] = [
    ((("Accept", "*/*"),), (("accept", "application/json"),)),
    ((("Accept", "*/*"),), ()),
    ((("Accept", "application/json, */*;q=0.5"),), ()),
    ((("Accept", "text/event-stream, application/json"),), (("accept", "text/event-stream"),)),
    ((("Accept", "application/json; Charset=UTF-8; q=0.1"),), ()),
    ((("Accept", "text/plain;q=1.0;b=1;a=2"),), (("accept", "Text/Plain; a = 2; b=1"),)),
    ((("Content-Type", "application/json"),), (("content-type", "Application/JSON; charset=utf-8"),)),
    ((("Content-Type", 'multipart/form-data; boundary="a,b"'),), (("content-type", "multipart/form-data"),)),
    ((("OpenAI-Beta", "a=v1, b"),), (("openai-beta", "b"), ("openai-beta", "a=v1"))),
    ((("anthropic-beta", "a,b,a"),), (("anthropic-beta", "b,a"),)),
    ((("anthropic-beta", ""),), ()),
    ((("X-Tenant", " a "),), (("x-tenant", "a"),)),
    (
        (("x-goog-request-params", "model=projects/one/locations/eu"),),
        (("x-goog-request-params", "model=projects/two/locations/eu"),),
    ),
    ((("x-a", "1"), ("x-b", "2")), (("x-b", "2"), ("x-a", "1"))),
]
OTHER: list[tuple[Headers, Headers]] = [
    ((("x-tenant", "a"),), (("x-tenant", "b"),)),
    ((("x-tenant", "a"),), ()),
    ((("x-tenant", ""),), ()),
    ((("x-tenant", "a"),), (("x-tenant", "A"),)),
    ((("x-tenant", "a"), ("x-tenant", "b")), (("x-tenant", "b"), ("x-tenant", "a"))),
    ((("accept", "text/event-stream"),), (("accept", "*/*"),)),
    ((("accept", "application/json;q=0"),), (("accept", "application/json"),)),
    ((("accept", "application/json; q=0.000"),), ()),
    ((("accept", "*/*;q=0"),), ()),
    ((("accept", "application/json, */*;q=0"),), (("accept", "application/json"),)),
    ((("accept", "text/plain;q=0"),), (("accept", "text/plain"),)),
    ((("accept", "application/json;version=2"),), (("accept", "application/json"),)),
    (
        (("accept", "text/event-stream;q=0.1, application/json"),),
        (("accept", "text/event-stream, application/json;q=0.1"),),
    ),
    ((("content-type", "application/json"),), (("content-type", "text/plain"),)),
    ((("content-type", "application/json;a=1, text/plain"),), (("content-type", "application/json"),)),
    ((("anthropic-beta", "a"),), (("anthropic-beta", "a,b"),)),
    ((("anthropic-version", "2023-06-01"),), (("anthropic-version", "2023-06-02"),)),
    (
        (("x-goog-request-params", "model=projects/one/locations/eu"),),
        (("x-goog-request-params", "model=projects/one/locations/us"),),
    ),
]


def test_every_header_counts_but_those_of_the_lists() -> None:
    """In any case."""
    assert [] == [name for name in IGNORED if RULES.is_compared(name) or RULES.is_compared(name.upper())]
    assert [] == [name for name in COMPARED if not RULES.is_compared(name) or not RULES.is_compared(name.title())]


def test_two_spellings_of_headers() -> None:
    """Those that say the same, and those that do not."""
    assert [] == [pair for pair in SAME if RULES.list_compared(pair[0]) != RULES.list_compared(pair[1])]
    assert [] == [pair for pair in OTHER if RULES.list_compared(pair[0]) == RULES.list_compared(pair[1])]


def test_a_project_adds_headers_and_ignores_others() -> None:
    """What is in neither list stays as it is."""
    rules = HeaderRules(["OpenAI-Organization", "user-agent"], ["X-Run"])

    named = ("openai-organization", "User-Agent", "authorization", "openai-project", "x-run", "x-tenant")
    assert [True, True, False, False, False, True] == [rules.is_compared(name) for name in named]


def test_a_credential_cannot_be_added() -> None:
    """It would be accepted and never compared; the error names each."""
    with pytest.raises(InvalidConfig) as caught:
        HeaderRules(["Authorization", "X-Tenant", "x-variant-cookie"], where="traceforge.config.json")

    assert [
        ("traceforge.config.json", "$.match.headers[0]"),
        ("traceforge.config.json", "$.match.headers[2]"),
    ] == [(finding.file, finding.path) for finding in caught.value.findings]
