"""Every trace has exactly the documented fields, for any message: checked against the published schema."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.chat_servers import Echo, running_chat, write_prompts
from support.example_counts import scale_examples
from traceforge.canon import JSONObject
from traceforge.chat.conversation import Chat
from traceforge.chat.conversation_memory import ConversationMemory
from traceforge.chat.execution_trace import check_execution_trace
from traceforge.chat.prompt_layers import PromptFolder
from traceforge.schemas import load_schema

SCHEMA = json.loads(load_schema("execution-trace"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

ANY_CHARACTER = st.characters()  # Control characters, lone surrogates, right-to-left marks, unassigned code points.
ANY_TEXT = st.text(ANY_CHARACTER, min_size=1)
LONG = st.builds(lambda text, times: (text * times)[:100_000], ANY_TEXT, st.integers(1000, 100_000))
UTF8 = st.text().map(str.encode)


class FixedReplyModel:
    """A model with one reply."""

    developer_role = "developer"

    def __init__(self, text: str) -> None:
        self._text = text

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        return self._text


def _objects(schema: Any) -> list[Any]:
    nested = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    objects = [item for inner in nested for item in _objects(inner)]
    return [schema, *objects] if isinstance(schema, dict) and schema.get("type") == "object" else objects


def test_the_schema_has_no_additional_properties() -> None:
    """At no level, and every property is required."""
    objects = _objects(SCHEMA)

    assert 3 == len(objects)
    assert [(False, list(item["properties"])) for item in objects] == [
        (item["additionalProperties"], item["required"]) for item in objects
    ]


@settings(
    max_examples=scale_examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ANY_TEXT | LONG, ANY_TEXT, ANY_TEXT | LONG, st.tuples(UTF8, UTF8, UTF8), ANY_TEXT)
@example("\ud800", "\udfff", "\ud83d", (b"", b"", b""), "m")
@example("\x00\x01\x1f\x7f\x80", "\x00", "\x00", (b"\x00", b"\xef\xbb\xbf", b"\r\n"), "\x00")
@example("\u202e\u05e9\u05dc\u05d5\u05dd", "\u200f", "\u2067\u0627", (b"a", b"a", b"a"), "\u202e")
@example("x" * 100_000, "s" * 1000, "\U0001f600" * 25_000, (b"p" * 100_000, b"", b""), "m")
@example('{"trace": null}', "__proto__", "null", (b"{}", b"{}", b"{}"), "constructor")
def test_a_trace_has_exactly_the_documented_fields(
    tmp_path: Path, message: str, session: str, reply: str, prompts: tuple[bytes, bytes, bytes], model: str
) -> None:
    """For every message, session, reply, prompt and model; apart from it, the response has only the reply."""
    folder = write_prompts(tmp_path / "prompts", system=prompts[0], developer=prompts[1], session=prompts[2])
    chat = Chat(model, FixedReplyModel(reply), PromptFolder(folder), ConversationMemory())
    body = json.dumps({"message": message, "session_id": session, "trace": True}).encode()
    plain = json.dumps({"message": message, "session_id": session}).encode()

    answer = json.loads(asyncio.run(chat.answer(body)).decode("utf-8", "strict"))
    untraced = json.loads(asyncio.run(chat.answer(plain)))

    assert ["reply", "trace"] == list(answer)
    assert {"reply": reply} == untraced
    trace = answer["trace"]
    VALIDATOR.validate(trace)
    assert [] == check_execution_trace(trace)
    assert [hashlib.sha256(data).hexdigest() for data in prompts] + [message] == list(trace["inputs"].values())
    assert (model, session, {"assistant_message": reply}) == (trace["model"], trace["session_id"], trace["output"])
    assert reply == answer["reply"]


@pytest.mark.parametrize(
    "message",
    [
        "\x00\x1b[31m\x7f",
        "x" * 100_000,
        "\ud83d alone",
        "\u202e right to left שלום",
        "\r\nSet-Cookie: a=b\r\n\r\n",
        "\uffff",
    ],
    ids=ascii,
)
def test_a_trace_over_http_has_exactly_the_documented_fields(tmp_path: Path, message: str) -> None:
    """Byte for byte."""
    model = Echo()
    with running_chat(model, write_prompts(tmp_path / "prompts")) as running:
        answer = running.ask(message, trace=True)

    VALIDATOR.validate(answer["trace"])
    assert message == answer["trace"]["inputs"]["user_message"]
    assert f"echo: {message}" == answer["reply"] == answer["trace"]["output"]["assistant_message"]
    assert message == json.loads(model.bodies[0])["messages"][-1]["content"]


def test_trace_ids_are_unique(tmp_path: Path) -> None:
    with running_chat(Echo(), write_prompts(tmp_path / "prompts")) as running:
        names = {running.ask("the same", trace=True)["trace"]["trace_id"] for _ in range(100)}

    assert 100 == len(names)
