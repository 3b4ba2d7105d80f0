"""Where a request goes, as its key names it: a table."""

from __future__ import annotations

from traceforge.capture.hook.model_call_rules import HOSTS
from traceforge.replay.logical_upstream import DeclaredUpstream, UpstreamNames, hide_account, is_provider
from traceforge.wire.endpoints import find_prefix, split_url

CORP = DeclaredUpstream("corp", "https://llm.example.com/gateway")
MOVED = DeclaredUpstream("moved", "https://new.example.com", "old.example.com")
AZURE = DeclaredUpstream("azure-proxy", "https://apim.example.com/azure", "azure")
CHAIN = DeclaredUpstream("chain", "http://127.0.0.1:9000", "moved")
OURS = DeclaredUpstream("openai", "https://openai.internal.example.com")
LOOP = [DeclaredUpstream("a", "https://a.example.com", "b"), DeclaredUpstream("b", "https://b.example.com", "a")]
NAMES = UpstreamNames([CORP, MOVED, AZURE, CHAIN, OURS, *LOOP])

VERTEX = "v1/projects/me/locations/europe-west1/publishers/google/models/g:generateContent"

UPSTREAMS = {
    "https://api.eu.mistral.ai/v1/chat/completions": "mistral/eu",
    "https://api-inference.together.ai/v1/chat/completions": "together",
    # 1. declared
    "https://llm.example.com/gateway/v1/chat/completions": "corp/v1",
    "https://LLM.example.com:443/gateway/chat/completions": "corp",
    "http://llm.example.com/gateway/v1/other": "corp",
    "https://llm.example.com/gateway2/v1/chat/completions": "llm.example.com/gateway2/v1",
    "https://llm.example.com/v1/chat/completions": "llm.example.com/v1",
    "https://llm.example.com:8443/gateway/v1/chat/completions": "llm.example.com:8443/gateway/v1",
    "https://new.example.com/team/v1/messages": "old.example.com/team/v1",
    "http://127.0.0.1:9000/team/v1/messages": "old.example.com/team/v1",
    "https://apim.example.com/azure/x/y/openai/deployments/gpt/chat/completions": "azure",
    "https://openai.internal.example.com/any/v1/chat/completions": "openai",
    # 2. providers: their locations and deployments count; accounts, projects and resources do not
    "https://api.openai.com/v1/chat/completions": "openai",
    "https://API.openai.com./v1/responses": "openai",
    "https://user:pass@api.openai.com:443/v1/responses": "openai",
    "https://[REDACTED]@api.openai.com/v1/responses": "openai",
    "https://eu.api.openai.com/v1/chat/completions": "openai/eu",
    "https://api.openai.com:8443/v1/chat/completions": "api.openai.com:8443/v1",
    "https://api.openai.com.evil.example/v1/chat/completions": "api.openai.com.evil.example/v1",
    "https://evilapi.openai.com/v1/chat/completions": "evilapi.openai.com/v1",
    "https://api.anthropic.com/v1/messages": "anthropic",
    "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent": "gemini",
    f"https://europe-west1-aiplatform.googleapis.com/{VERTEX}": "vertex/europe-west1",
    f"https://aiplatform.googleapis.com/{VERTEX.replace('europe-west1', 'global')}": "vertex/global",
    "https://aiplatform.googleapis.com/v1/publishers/google/models/g:generateContent": "vertex/global",
    "https://aiplatform.googleapis.com/v1/publishers/acme/models/g:generateContent": "vertex/global/acme",
    f"https://aiplatform.eu.rep.googleapis.com/{VERTEX.replace('europe-west1', 'eu')}": "vertex/eu",
    "https://mine.openai.azure.com/openai/deployments/gpt/chat/completions": "azure",
    "https://other.services.ai.azure.com/openai/deployments/gpt/chat/completions": "azure",
    "https://mine.openai.azure.us/openai/deployments/gpt/chat/completions": "azure/us",
    "https://swedencentral.api.cognitive.microsoft.com/openai/deployments/gpt/chat/completions": (
        "azure/swedencentral"
    ),
    "https://llama.eastus2.models.ai.azure.com/chat/completions": "azure/llama.eastus2",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse": "bedrock/us-east-1",
    "https://bedrock-runtime-fips.us-west-2.amazonaws.com/model/m/converse": "bedrock/us-west-2",
    "https://vpce-1-2.bedrock-runtime.eu-west-1.vpce.amazonaws.com/model/m/converse": "bedrock/eu-west-1",
    "https://us-east-1.api.x.ai/v1/chat/completions": "xai/us-east-1",
    # 3. local, on any port
    "http://127.0.0.1:8080/v1/chat/completions": "local/v1",
    "http://127.9.9.9/v1/chat/completions": "local/v1",
    "http://[::1]:99/v1/chat/completions": "local/v1",
    "http://[::ffff:127.0.0.1]:99/v1/chat/completions": "local/v1",
    "http://[fd00::1%25eth0]/v1/chat/completions": "local/v1",
    "http://0.0.0.0:8000/v1/chat/completions": "local/v1",
    "http://10.1.2.3:8000/v1/chat/completions": "local/v1",
    "http://172.31.0.1/v1/chat/completions": "local/v1",
    "http://192.168.1.20:11434/api/chat": "local",
    "http://localhost:11434/api/chat": "local",
    "http://llm.localhost/api/chat": "local",
    "http://vllm:8000/v1/chat/completions": "local/v1",
    "http://host.docker.internal:11434/api/chat": "local",
    "http://127.1:80/api/chat": "local",
    "http://2130706433/api/chat": "local",
    # 4. any other host, with its port
    "http://134744072/api/chat": "134744072",
    "http://8.8.8.8/api/chat": "8.8.8.8",
    "http://172.32.0.1/api/chat": "172.32.0.1",
    "http://[2001:db8::1]:8000/api/chat": "[2001:db8::1]:8000",
    "http://llm.example.net/v1/messages": "llm.example.net/v1",
    "https://llm.example.net/v1/messages": "llm.example.net/v1",  # Where TLS ends does not decide who answers.
    "https://llm.example.net:80/v1/messages": "llm.example.net:80/v1",
    "https://discord.com/api/channels/1/messages": "discord.com",
    "https://bücher.example/v1/messages": "xn--bcher-kva.example/v1",
    "https://stra\u00dfe.example/v1/messages": "stra\u00dfe.example/v1",  # `strasse` for some clients only
    "http://api.openai.com/v1/chat/completions": "api.openai.com/v1",  # in cleartext: whoever answers
    "HTTP://desk.openai.azure.com/openai/deployments/gpt/chat/completions": "desk.openai.azure.com/openai",
    "https://a.example.com/v1/messages": "a/v1",
    "/v1/messages": "?",
    "": "?",
}


def name(url: str) -> str:
    path, _ = split_url(url)
    return NAMES.name_upstream(url, path, find_prefix(path))


def test_the_upstream_of_a_url() -> None:
    """Declared, then a provider, then local, then the host; the path before the endpoint counts but at a provider."""
    assert UPSTREAMS == {url: name(url) for url in UPSTREAMS}


# A router, where the path says who answers, and hosts that were no provider's when they were first recorded.
PATH_COUNTS = {
    "router.huggingface.co", "api-inference.huggingface.co", "codestral.mistral.ai", "api.jina.ai",
    "api.voyageai.com", "ai.mongodb.com",
}  # fmt: skip


def test_every_host_of_a_provider_that_is_watched_is_official() -> None:
    """Except those at which the path before an endpoint counts."""
    assert PATH_COUNTS == {host for host in HOSTS if not is_provider(name(f"https://{host}/v1/models"))}
    assert "router.huggingface.co/nebius/v1" == name("https://router.huggingface.co/nebius/v1/chat/completions")


def test_a_stored_upstream_keeps_its_meaning_when_upstreams_are_declared() -> None:
    """A host that was declared since, one that is the same as another, and all others as they are."""
    stored = {
        "llm.example.com/gateway/v1": "corp/v1",
        "llm.example.com/v1": "llm.example.com/v1",
        "moved/v1": "old.example.com/v1",
        "corp/v1": "corp/v1",
        "openai/eu": "openai/eu",
        "local/v1": "local/v1",
    }

    assert stored == {upstream: NAMES.resolve_stored(upstream) for upstream in stored}


def test_the_account_in_a_path_of_a_provider_does_not_count() -> None:
    """Its location and deployment do; at any other upstream the whole path counts."""
    arn = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A{}%3Aapplication-inference-profile%2Fabc/converse"
    vertex = "/v1/projects/{}/locations/us-east5/publishers/anthropic/models/claude:rawPredict"
    for upstream, path in (("bedrock/us-east-1", arn), ("vertex/us-east5", vertex)):
        one, two = (hide_account(upstream, path.format(account)) for account in ("1" * 12, "2" * 12))
        assert one == two
    assert "/v1/projects/one/x" == hide_account("llm.example.com", "/v1/projects/one/x")
    assert "/v1/projects/one/x" == hide_account("openai", "/v1/projects/one/x")
