"""Which upstream is meant."""

from __future__ import annotations

import pytest

from traceforge.capture.proxy.upstream_routes import InvalidUpstream, UpstreamRoutes, read_upstream

ROUTES = UpstreamRoutes({"corp": "https://LLM.example.com:8443/gateway/", "ollama": "http://10.0.0.9:1"})


@pytest.mark.parametrize(
    ("method", "target", "anthropic", "url"),
    [
        ("POST", "/openai/v1/chat/completions", False, "https://api.openai.com/v1/chat/completions"),
        ("GET", "/openai", False, "https://api.openai.com/"),
        ("GET", "/openai?a=/b", False, "https://api.openai.com/?a=/b"),
        ("GET", "/openai/", False, "https://api.openai.com/"),
        ("POST", "/anthropic/v1/messages?beta=true", False, "https://api.anthropic.com/v1/messages?beta=true"),
        ("POST", "/corp/v1/x%2Fy//z", False, "https://llm.example.com:8443/gateway/v1/x%2Fy//z"),
        ("POST", "/ollama/api/chat", False, "http://10.0.0.9:1/api/chat"),
        ("POST", "/api/chat", False, "http://10.0.0.9:1/api/chat"),
        ("GET", "/api/tags", False, "http://10.0.0.9:1/api/tags"),
        ("POST", "/api/show", False, "http://10.0.0.9:1/api/show"),
        ("POST", "/v1/chat/completions", False, "https://api.openai.com/v1/chat/completions"),
        ("POST", "/v1/responses?a", False, "https://api.openai.com/v1/responses?a"),
        ("GET", "/v1/responses/resp_1", False, "https://api.openai.com/v1/responses/resp_1"),
        ("POST", "/v1/embeddings", False, "https://api.openai.com/v1/embeddings"),
        ("GET", "/v1/models", False, "https://api.openai.com/v1/models"),
        ("GET", "/v1/models", True, "https://api.anthropic.com/v1/models"),
        ("GET", "/v1/models/x", True, "https://api.anthropic.com/v1/models/x"),
        ("POST", "/v1/messages", False, "https://api.anthropic.com/v1/messages"),
        ("POST", "/v1/messages/count_tokens", False, "https://api.anthropic.com/v1/messages/count_tokens"),
        ("POST", "/v1/threads/t/messages", False, "https://api.openai.com/v1/threads/t/messages"),
        (
            "POST", "/v1beta/models/g:streamGenerateContent?alt=sse", False,
            "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse",
        ),
        ("GET", "/v1beta/models", False, "https://generativelanguage.googleapis.com/v1beta/models"),
        ("POST", "/v1/models/g:generateContent", False, "https://generativelanguage.googleapis.com/v1/models/g:generateContent"),
    ],
)  # fmt: skip
def test_a_prefix_or_a_known_path_selects_the_upstream(method: str, target: str, anthropic: bool, url: str) -> None:
    """What follows the prefix is forwarded unchanged."""
    route = ROUTES.find_route(method, target, is_anthropic=anthropic)

    assert route is not None
    assert url == route.url
    assert url.endswith(route.path)


@pytest.mark.parametrize(
    "target",
    ["/", "*", "/x", "/crop/v1/messages", "/Openai/v1/x", "//openai/v1/x", "/v1/unknown", "/api/x", "/v2/models"],
)
def test_an_unknown_prefix_has_no_route(target: str) -> None:
    """A misspelt name does not send an API key to a provider with a similar API."""
    assert ROUTES.find_route("POST", target, is_anthropic=False) is None


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("/@https/API.example.com/v1/chat/completions?a=/b", "https://api.example.com/v1/chat/completions?a=/b"),
        ("/@http/127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("/@http/[::1]:8080?x", "http://[::1]:8080/?x"),
        ("/@https/api.example.com/a/../../b", "https://api.example.com/a/../../b"),
    ],
)
def test_a_path_that_begins_with_its_origin_leads_there(target: str, url: str) -> None:
    """Its calls are counted by the authority, and no provider is assumed."""
    route = ROUTES.find_route("POST", target, is_anthropic=False, has_any_origin=True)

    assert route is not None
    assert (url, route.upstream.authority, "") == (route.url, route.upstream.name, route.provider)
    assert f"POST {route.path} HTTP/1.1".encode() == route.request_line


@pytest.mark.parametrize(
    "target", ["/@https/a:b@c/x", "/@https/a:0/x", "/@https/a:99999/x", "/@https//x", "/@ftp/a/x"]
)
def test_a_path_with_an_unusable_origin_has_no_route(target: str) -> None:
    """It is refused as any unknown path is."""
    assert ROUTES.find_route("POST", target, is_anthropic=False, has_any_origin=True) is None


def test_an_origin_in_the_path_needs_permission() -> None:
    """Otherwise every program that reaches the proxy could use it to reach any host."""
    assert ROUTES.find_route("POST", "/@https/api.example.com/x", is_anthropic=False) is None


def test_an_invalid_upstream_is_refused() -> None:
    """When the proxy starts, not when a call comes."""
    with pytest.raises(InvalidUpstream, match="password"):
        read_upstream("a", "http://me:s3cret@a")


@pytest.mark.parametrize(
    ("url", "host", "port", "authority"),
    [
        ("http://a.example", "a.example", 80, "a.example"),
        ("https://a.example", "a.example", 443, "a.example"),
        ("http://[::1]:8080", "::1", 8080, "[::1]:8080"),
    ],
)
def test_an_upstream_has_a_host_a_port_and_an_authority(url: str, host: str, port: int, authority: str) -> None:
    """The scheme gives the default port, and Host is the authority of the URL."""
    upstream = read_upstream("a", url)

    assert (host, port, authority) == (upstream.host, upstream.port, upstream.authority)
