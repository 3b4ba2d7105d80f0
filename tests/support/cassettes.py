"""Cassettes as the JSON serializer of vcrpy writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.exchanges import chat_answer, chat_request
from support.proposals import REPEATABLE, USAGE

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"
OPENAI_URL = "https://api.openai.com/v1/chat/completions"


def interaction(question: str = "Hi", answer: str = "yes", *, url: str = OPENAI_URL, **more: Any) -> dict[str, Any]:
    """One call of a cassette; `more` are fields of its response."""
    return {
        "request": {
            "method": "POST", "uri": url,
            "headers": {"content-type": ["application/json"], "authorization": [f"Bearer {KEY}"]},
            "body": json.dumps(chat_request(question, **REPEATABLE)),
        },
        "response": {
            "status": {"code": 200, "message": "OK"}, "headers": {"content-type": ["application/json"]},
            "body": {"string": json.dumps(chat_answer(answer, usage=USAGE))},
        } | more,
    }  # fmt: skip


def write_cassette(project: Path, name: str, *interactions: dict[str, Any]) -> None:
    """A cassette of a project."""
    file = project / "tests" / "cassettes" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 1, "interactions": list(interactions)}))
