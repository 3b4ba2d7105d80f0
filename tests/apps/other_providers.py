"""An application of many providers, each asked with its own client: plain, streamed, with a tool, and asynchronously.

Addresses are plain HTTP, so that `HTTP_PROXY` leads to a provider of the tests, and the calls still have the hosts of
the providers. A clause of `ASK` comes from the environment, so that a test can edit the prompt. Clients are imported
where they are used.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

ASK = os.environ.get("ASK", "Where is the tower?")
KEY = os.environ["PROVIDER_KEY"]
MESSAGES: list[Any] = [{"role": "user", "content": ASK}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "look", "description": "Look at a city.", "parameters": PARAMETERS}}
]


def cohere(**options: Any) -> Any:
    import cohere

    client = cohere.ClientV2(KEY, base_url="http://api.cohere.com")
    if options.pop("stream", False):
        return list(client.chat_stream(model="command-a-03-2025", messages=MESSAGES, **options))
    return client.chat(model="command-a-03-2025", messages=MESSAGES, **options)


async def cohere_async(**options: Any) -> Any:
    import cohere

    async with cohere.AsyncClientV2(KEY, base_url="http://api.cohere.com") as client:
        if options.pop("stream", False):
            events = client.chat_stream(model="command-a-03-2025", messages=MESSAGES, **options)
            return [event async for event in events]
        return await client.chat(model="command-a-03-2025", messages=MESSAGES, **options)


def cohere_embed() -> Any:
    import cohere

    client = cohere.ClientV2(KEY, base_url="http://api.cohere.com")
    return client.embed(
        model="embed-v4.0", texts=[ASK], input_type="search_query", embedding_types=["float"]
    ), client.rerank(model="rerank-v3.5", query=ASK, documents=["In Paris.", "In Rome."], top_n=1)


def mistral(**options: Any) -> Any:
    from mistralai.client import Mistral

    with Mistral(api_key=KEY, server_url="http://api.mistral.ai") as client:
        if options.pop("stream", False):
            with client.chat.stream(model="mistral-small-latest", messages=MESSAGES, **options) as events:
                return list(events)
        return client.chat.complete(model="mistral-small-latest", messages=MESSAGES, **options)


async def mistral_async(**options: Any) -> Any:
    from mistralai.client import Mistral

    async with Mistral(api_key=KEY, server_url="http://api.mistral.ai") as client:
        if options.pop("stream", False):
            events = await client.chat.stream_async(model="mistral-small-latest", messages=MESSAGES, **options)
            return [event async for event in events]
        return await client.chat.complete_async(model="mistral-small-latest", messages=MESSAGES, **options)


def mistral_own() -> Any:
    from mistralai.client import Mistral

    document: Any = {"type": "document_url", "document_url": f"https://tower.example/{ASK}.pdf"}
    with Mistral(api_key=KEY, server_url="http://api.mistral.ai") as client:
        with client.fim.stream(model="codestral-latest", prompt=ASK, suffix="return city") as events:
            streamed = list(events)
        return (
            streamed,
            client.fim.complete(model="codestral-latest", prompt=ASK, suffix="return city"),
            client.agents.complete(agent_id="ag:1", messages=MESSAGES),
            client.embeddings.create(model="mistral-embed", inputs=[ASK]),
            client.classifiers.moderate(model="mistral-moderation-latest", inputs=[ASK]),
            client.ocr.process(model="mistral-ocr-latest", document=document),
        )


def openrouter(**options: Any) -> Any:
    from openrouter import OpenRouter

    with OpenRouter(api_key=KEY, server_url="http://openrouter.ai/api/v1") as client:
        answer = client.chat.send(model="deepseek/deepseek-r1", messages=MESSAGES, **options)
        return list(answer) if options.get("stream") else answer


async def openrouter_async(**options: Any) -> Any:
    from openrouter import OpenRouter

    async with OpenRouter(api_key=KEY, server_url="http://openrouter.ai/api/v1") as client:
        answer = await client.chat.send_async(model="deepseek/deepseek-r1", messages=MESSAGES, **options)
        return [event async for event in answer] if options.get("stream") else answer


def _openai_like(make: Callable[[], Any], model: str) -> Callable[..., Any]:
    def ask(**options: Any) -> Any:
        answer = make().chat.completions.create(model=model, messages=MESSAGES, **options)
        return list(answer) if options.get("stream") else answer

    return ask


def _openai_like_async(make: Callable[[], Any], model: str) -> Callable[..., Any]:
    async def ask(**options: Any) -> Any:
        answer = await make().chat.completions.create(model=model, messages=MESSAGES, **options)
        return [event async for event in answer] if options.get("stream") else answer

    return ask


def _client(package: str, name: str, url: str) -> Callable[[], Any]:
    def make() -> Any:
        return getattr(__import__(package), name)(api_key=KEY, base_url=url)

    return make


def hugging_face(**options: Any) -> Any:
    from huggingface_hub import InferenceClient

    client = InferenceClient(base_url="http://router.huggingface.co/v1", api_key=KEY)
    answer = client.chat_completion(MESSAGES, model="google/gemma-2-2b-it", **options)
    return list(answer) if options.get("stream") else answer


async def hugging_face_async(**options: Any) -> Any:
    from huggingface_hub import AsyncInferenceClient

    async with AsyncInferenceClient(base_url="http://router.huggingface.co/v1", api_key=KEY) as client:
        answer: Any = await client.chat_completion(MESSAGES, model="google/gemma-2-2b-it", **options)
        return [event async for event in answer] if options.get("stream") else answer


def hugging_face_own() -> Any:
    from huggingface_hub import InferenceClient

    hosted = "http://router.huggingface.co/hf-inference/models"
    model = f"{hosted}/google/gemma-2-2b-it"
    client = InferenceClient(token=KEY)
    return (
        client.text_generation(ASK, model=model, details=True, max_new_tokens=20),
        list(client.text_generation(ASK, model=model, details=True, max_new_tokens=20, stream=True)),
        client.feature_extraction(ASK, model=f"{hosted}/BAAI/bge-small-en-v1.5/pipeline/feature-extraction"),
        client.text_generation(ASK, model="http://tgi.example/generate", details=True, max_new_tokens=20),
    )


def voyage() -> Any:
    import voyageai

    client = voyageai.Client(KEY, base_url="http://api.voyageai.com/v1")
    embedded, ranked = client.embed([ASK], "voyage-3.5"), client.rerank(ASK, ["In Paris.", "In Rome."], "rerank-2.5")
    return embedded.embeddings, [result.relevance_score for result in ranked.results]


async def voyage_async() -> Any:
    import voyageai

    client: Any = voyageai.AsyncClient(KEY, base_url=os.environ["VOYAGE_URL"])
    return (await client.embed([ASK], "voyage-3.5")).embeddings


def replicate_predictions() -> Any:
    import httpx
    import replicate

    transport = httpx.HTTPTransport(proxy=os.environ.get("HTTP_PROXY"))  # This client reads no variables itself.
    client = replicate.Client(KEY, base_url="http://api.replicate.com", transport=transport)
    return "".join(client.run("meta/meta-llama-3-8b-instruct", input={"prompt": ASK}))


async def replicate_async() -> Any:
    import httpx
    import replicate

    transport = httpx.AsyncHTTPTransport(proxy=os.environ.get("HTTP_PROXY"))
    client = replicate.Client(KEY, base_url="http://api.replicate.com", transport=transport)
    return "".join(await client.async_run("meta/meta-llama-3-8b-instruct", input={"prompt": ASK}))


def pieces_of_streams() -> Any:
    """The bytes of every documented stream, in the pieces in which they come."""
    import httpx

    pieces = []
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with httpx.Client(headers=headers) as client:
        for call in json.loads(os.environ["STREAMS"]):
            body = json.dumps(call["request"]).replace("Where is the tower?", ASK)
            with client.stream("POST", call["url"], content=body) as response:
                response.raise_for_status()
                pieces.append([piece.decode("latin-1") for piece in response.iter_raw()])
    return pieces


LLAMA = "accounts/fireworks/models/llama-v3p3-70b-instruct"
OPENAI_LIKE = {
    "groq": ("groq", "Groq", "http://api.groq.com", "openai/gpt-oss-20b"),
    "deepseek": ("openai", "OpenAI", "http://api.deepseek.com", "deepseek-reasoner"),
    "xai": ("openai", "OpenAI", "http://api.x.ai/v1", "grok-4"),
    "llama.cpp": ("openai", "OpenAI", "http://llama.example/v1", "qwen3-8b.gguf"),
    "vllm": ("openai", "OpenAI", "http://vllm.example/v1", "Qwen/Qwen3-8B"),
    "together": ("together", "Together", "http://api.together.ai", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    "fireworks": ("fireworks", "Fireworks", "http://api.fireworks.ai/inference", LLAMA),
}  # fmt: skip
CHATS: dict[str, Callable[..., Any]] = {
    "cohere": cohere, "mistral": mistral, "openrouter": openrouter, "hugging face": hugging_face,
    **{who: _openai_like(_client(package, name, url), model)
       for who, (package, name, url, model) in OPENAI_LIKE.items()},
}  # fmt: skip
ASYNC_CHATS: dict[str, Callable[..., Any]] = {
    "cohere": cohere_async, "mistral": mistral_async, "openrouter": openrouter_async,
    "hugging face": hugging_face_async,
    **{who: _openai_like_async(_client(package, f"Async{name}", url), model)
       for who, (package, name, url, model) in OPENAI_LIKE.items()},
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "plain": {}, "stream": {"stream": True},
    "tools": {"tools": TOOLS}, "tools stream": {"tools": TOOLS, "stream": True},
}  # fmt: skip
OTHERS = [cohere_embed, mistral_own, hugging_face_own, voyage, replicate_predictions, pieces_of_streams]


def told(who: str, result: Any) -> None:
    """Print what a client returned, for a test that compares it."""
    print(f"TOLD {who} {json.dumps(repr(result))}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", CHATS)
def test_chat(who: str, way: str) -> None:
    told(f"{who} {way}", CHATS[who](**WAYS[way]))


@pytest.mark.parametrize("way", ["plain", "tools stream"])
@pytest.mark.parametrize("who", ASYNC_CHATS)
def test_chat_async(who: str, way: str) -> None:
    told(f"{who} {way} async", asyncio.run(ASYNC_CHATS[who](**WAYS[way])))


@pytest.mark.parametrize("ask", OTHERS)
def test_other(ask: Callable[[], Any]) -> None:
    told(ask.__name__, ask())


@pytest.mark.parametrize("ask", [voyage_async, replicate_async])
def test_other_async(ask: Callable[[], Any]) -> None:
    told(ask.__name__, asyncio.run(ask()))
