"""The other HTTP clients."""

import asyncio

import desk


def question(client):
    return {**desk.MODEL, "user": "clients", "messages": [{"role": "user", "content": f"Is this {client}?"}]}


def test_requests():
    import requests

    url = f"{desk.base_url()}/chat/completions"
    answer = requests.post(url, json=question("requests"), headers=desk.headers(), timeout=30)
    assert answer.json()["choices"]


def test_aiohttp():
    import aiohttp

    async def post():
        url = f"{desk.base_url()}/chat/completions"
        body, head = question("aiohttp"), desk.headers()
        async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=head) as answer:
            return await answer.json()

    assert asyncio.run(post())["choices"]
