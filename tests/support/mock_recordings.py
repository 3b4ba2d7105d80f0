"""Recordings of answers of the mock adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from traceforge.modelio import Completion, MockAdapter, RecordingSession
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()


def record_answers(path: Path, *answers: str | Completion, prompts: list[Any] | None = None, **named: Any) -> Any:
    """Record one call an answer, and read what was written."""
    with RecordingSession(path, MockAdapter(answers, **named), redactor=REDACTOR) as session:
        for number in range(len(answers)):
            session.adapter.complete(prompts[number] if prompts else f"prompt {number}")
    return json.loads(path.read_bytes())
