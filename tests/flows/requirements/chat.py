"""Specification 001: the chat."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

from flows.requirements.product import Product
from flows.requirements.requirement import Requirement
from support.chat_servers import PROMPTS


def _check_reply_alone(product: Product) -> None:
    for more in ({}, {"trace": False}):
        assert ["reply"] == list(product.chat.ask("Hello", "alone", **more))


def _check_trace_fields(product: Product) -> None:
    trace = product.chat.ask("Hello", "fields", trace=True)["trace"]
    assert ["trace_id", "timestamp", "model", "session_id", "inputs", "output"] == list(trace)
    hashes = ["system_prompt_hash", "developer_prompt_hash", "session_prompt_hash"]
    assert [*hashes, "user_message"] == list(trace["inputs"])
    assert ["assistant_message"] == list(trace["output"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", trace["timestamp"])


def _check_trace_values(product: Product) -> None:
    body = product.chat.ask("Where is Lyon?", "values", trace=True)
    trace = body["trace"]
    assert ("gpt-x", "values") == (trace["model"], trace["session_id"])
    assert "Where is Lyon?" == trace["inputs"]["user_message"]
    assert body["reply"] == trace["output"]["assistant_message"]


def _check_prompt_hashes(product: Product) -> None:
    inputs = product.chat.ask("Hello", "hashes", trace=True)["trace"]["inputs"]
    for layer in ("system", "developer", "session"):
        text = PROMPTS[f"{layer}.md"]
        assert hashlib.sha256(text.encode()).hexdigest() == inputs[f"{layer}_prompt_hash"]
        assert text.strip() not in json.dumps(inputs)


def _check_required_fields(product: Product) -> None:
    for body in (
        {"session_id": "s"},
        {"message": "Hi"},
        {"message": "", "session_id": "s"},
        {"message": 5, "session_id": "s"},
    ):
        assert 400 == product.chat.post(body).status_code


def _check_trace_is_a_boolean(product: Product) -> None:
    for value in ("true", 1, None, {}):
        assert 400 == product.chat.post({"message": "Hi", "session_id": "s", "trace": value}).status_code


def _check_trace_changes_nothing(product: Product) -> None:
    replies = [
        [product.chat.ask(text, session, **more)["reply"] for text in ("Where is Lyon?", "And Turin?")]
        for session, more in (("with", {"trace": True}), ("none", {}))
    ]
    assert replies[0] == replies[1]


def _check_nothing_is_kept(product: Product) -> None:
    product.chat.ask("Hello", "kept", trace=True)
    names = {str(path.relative_to(product.folder / "chat")) for path in (product.folder / "chat").rglob("*")}
    assert {"prompts", *(f"prompts/{name}" for name in PROMPTS)} == names


def _check_traces_are_of_one_response(product: Product) -> None:
    ids = {product.chat.ask("Hello", "ids", trace=True)["trace"]["trace_id"] for _ in range(3)}
    assert 3 == len(ids)


def _check_page(product: Product) -> None:
    assert 200 == product.chat.get("/").status_code


def _check_directories(product: Product) -> None:
    package = Path(sys.modules["traceforge"].__file__ or "").parent / "chat"
    assert {"frontend", "prompts"} <= {path.name for path in package.iterdir()}


CHAT_REQUIREMENTS: list[Requirement] = [
    Requirement("001", "API Behavior", "without trace, the response is the reply alone", _check_reply_alone),
    Requirement("001", "API Behavior", "message and session_id are required", _check_required_fields),
    Requirement("001", "API Behavior", "trace is a boolean", _check_trace_is_a_boolean),
    Requirement("001", "Trace Object", "it has exactly these fields", _check_trace_fields),
    Requirement("001", "Trace Object", "it explains the response", _check_trace_values),
    Requirement("001", "Trace Object", "each response has a trace of its own", _check_traces_are_of_one_response),
    Requirement("001", "Prompt Hashing Rules", "prompts are SHA-256, and never raw", _check_prompt_hashes),
    Requirement("001", "Trace Generation Rules", "a trace changes no reply and no memory",
                _check_trace_changes_nothing),
    Requirement("001", "Trace Generation Rules", "nothing is written", _check_nothing_is_kept),
    Requirement("001", "What v0.5 does not do", "the page works as it did", _check_page),
    Requirement("001", "Directory Structure", "backend, frontend and prompts are in the package (decision 23)",
                _check_directories),
]  # fmt: skip
