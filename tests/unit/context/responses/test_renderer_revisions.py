"""`context/responses/renderer_revisions.py`: a released revision renders the same bytes for ever."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.corpus import PROJECT
from traceforge.context.model.block_source import kind_of
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import Target
from traceforge.context.responses.renderer_revisions import (
    DEFAULT_RENDERER,
    RENDERER_REVISIONS,
    find_renderer,
    target_runtime,
)
from traceforge.errors import StoreRefused
from traceforge.wire.endpoints import Dialect

GOLDEN = Path(PROJECT, "tests", "golden")
CASES = [
    pytest.param(revision, case, id=f"{revision} {case['name']}")
    for revision in RENDERER_REVISIONS
    for case in json.loads((GOLDEN / f"rendered-{revision}.json").read_text(encoding="utf-8"))["cases"]
]


def read_block(number: int, block: dict[str, Any]) -> ContentBlock:
    """A block of the golden file; bytes are there in base64."""
    content = block["content"]
    if isinstance(content, dict) and content.keys() == {"base64"}:
        content = base64.b64decode(content["base64"])
    return ContentBlock(f"blk_{number}", block["role"], kind_of(block["type"], content), content, block["media_type"])


@pytest.mark.parametrize(("revision", "case"), CASES)
def test_a_released_revision_renders_the_bytes_that_it_always_did(revision: str, case: dict[str, Any]) -> None:
    """For every provider. If this fails, an encoder has changed: add a revision, and keep the old encoder for this
    one."""
    renderer = find_renderer(revision)
    blocks = [read_block(number, block) for number, block in enumerate(case["blocks"])]

    for provider, expected in case["requests"].items():
        dialect = Dialect(provider)
        request = renderer.encode(renderer.render(blocks, dialect, case["parameters"]), dialect, "a model/1")

        assert (expected["path"], expected["body"]) == (request.path, request.body)
        assert expected["digest"] == request.digest


def test_an_unknown_revision_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(StoreRefused, match="there is no renderer revision rr_9: this version knows rr_1") as refused:
        find_renderer("rr_9")

    assert (400, "unknown_renderer_revision") == (refused.value.status, refused.value.reason)
    assert DEFAULT_RENDERER == find_renderer().revision == find_renderer(DEFAULT_RENDERER).revision


def test_a_runtime_has_what_the_target_declares_and_what_the_renderer_knows() -> None:
    """What nobody knows is null."""
    target = Target(provider="gemini", model="m", revision="2026-01", tokenizer_revision="tok-7")

    runtime = target_runtime(target, find_renderer("rr_1"))

    assert ("tok-7", None, "rr_1/gemini", "rr_1/gemini", "rr_1", "2026-01") == (
        runtime.tokenizer_revision,
        runtime.chat_template_revision,
        runtime.tool_serialization_revision,
        runtime.response_schema_serialization_revision,
        runtime.renderer_revision,
        runtime.model_revision,
    )
