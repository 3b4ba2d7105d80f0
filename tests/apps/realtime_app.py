"""An application that speaks to models through WebSockets, with the official clients.

`SERVER` is where they are; `TLS_SERVER` is where Google's is, whose client insists on TLS.

Its tests are its calls: `traceforge record -- pytest realtime_app.py`.
"""

from __future__ import annotations

import asyncio
import base64
import os

from google import genai
from google.genai import types
from openai import AsyncOpenAI, OpenAI

SERVER, TLS_SERVER = os.environ["SERVER"], os.environ["TLS_SERVER"]
PROMPT = os.environ.get("PROMPT", "Be kind.")
OPENAI_KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
GOOGLE_KEY = "AIzaSyD-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE"
SOUND = bytes(range(256)) * 20


def speak() -> str:
    """The realtime API in a thread, with sound."""
    client = OpenAI(api_key=OPENAI_KEY, base_url=f"{SERVER}/v1")
    words = []
    with client.realtime.connect(model="gpt-realtime") as connection:
        connection.session.update(session={"type": "realtime", "instructions": PROMPT})
        for start in range(0, len(SOUND), 1024):
            connection.input_audio_buffer.append(audio=base64.b64encode(SOUND[start : start + 1024]).decode())
        connection.input_audio_buffer.commit()
        connection.response.create()
        for event in connection:
            if event.type == "response.output_text.delta":
                words.append(event.delta)
            elif event.type == "response.done":
                break
    return "".join(words)


async def speak_async() -> str:
    """The realtime API in an event loop, with a key as the name of a protocol, as a browser sends it."""
    client = AsyncOpenAI(api_key=OPENAI_KEY, base_url=f"{SERVER}/v1")
    words = []
    options = {"subprotocols": ["realtime", f"openai-insecure-api-key.{OPENAI_KEY}"]}
    async with client.realtime.connect(model="gpt-realtime", websocket_connection_options=options) as connection:
        await connection.session.update(session={"type": "realtime", "instructions": PROMPT})
        content = [{"type": "input_text", "text": "Hello!"}]
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await connection.response.create()
        async for event in connection:
            if event.type == "response.output_text.delta":
                words.append(event.delta)
            elif event.type == "response.done":
                break
    return "".join(words)


def respond() -> list[str]:
    """The WebSocket mode of the Responses API: two requests over one connection."""
    client = OpenAI(api_key=OPENAI_KEY, base_url=f"{SERVER}/v1")
    answers = []
    with client.responses.connect() as connection:
        for question in (PROMPT, "And now?"):
            words = []
            connection.response.create(model="gpt-5", input=question)
            for event in connection:
                if event.type == "response.output_text.delta":
                    words.append(event.delta)
                elif event.type == "response.completed":
                    break
            answers.append("".join(words))
    return answers


async def talk_live() -> str:
    """Google's Live API, with sound and with text."""
    client = genai.Client(api_key=GOOGLE_KEY, http_options={"base_url": TLS_SERVER})
    config = {"response_modalities": ["TEXT"], "system_instruction": PROMPT}
    async with client.aio.live.connect(model="gemini-live", config=config) as session:
        await session.send_realtime_input(audio=types.Blob(data=SOUND, mime_type="audio/pcm;rate=16000"))
        heard = await anext(session.receive())
        await session.send_client_content(turns={"role": "user", "parts": [{"text": "Hello!"}]}, turn_complete=True)
        words = [message.text or "" async for message in session.receive()]
    assert heard.server_content.input_transcription.text == "hello"
    return "".join(words)


def test_speak() -> None:
    assert "Hello there" == speak()


def test_speak_async() -> None:
    assert "Hello there" == asyncio.run(speak_async())


def test_respond() -> None:
    assert ["Hello 0", "Hello 1"] == respond()


def test_talk_live() -> None:
    assert "Hello there" == asyncio.run(talk_live())
