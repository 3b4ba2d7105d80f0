"""Every kind of call that is recorded can be approved and replayed under the default settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.approval_project import Project
from support.exchanges import chat_answer, chat_request, make_exchange
from support.proposals import KEYS, approve_change, propose
from support.wire_transcripts import CHAT, COMPLETIONS, SSE
from traceforge.exchange import Caller, Exchange
from traceforge.snapshots.approve.tree_commit import SnapshotChange
from traceforge.snapshots.record.pending_changes import ChangeKind
from traceforge.snapshots.tree.approved_calls import build_recordings

MULTIPART = "multipart/form-data; boundary=x"
FORM = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--x--\r\n'
STREAM = b'data: {"choices": [{"index": 0, "delta": {"content": "y"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
TWO_CHOICES = [{"index": index, "message": {"content": "y"}, "finish_reason": "stop"} for index in (0, 1)]


class Kind(NamedTuple):
    """A kind of call, as its SDK sends it."""

    address: str
    request: Any
    answer: Any
    has_record: bool = False
    status: int = 200
    media_type: str = "application/json"
    request_media_type: str = "application/json"

    def call(self) -> Exchange:
        return make_exchange(
            f"https://api.openai.com{self.address}",
            self.request,
            self.answer,
            status=self.status,
            media_type=self.media_type,
            request_media_type=self.request_media_type,
            caller=Caller("app.py:3:ask"),
        )


KINDS = {
    "a plain chat": Kind(CHAT, chat_request("Hi"), chat_answer("y"), True),
    "an answer without usage": Kind(CHAT, chat_request("Hi"), chat_answer("y", usage=None), True),
    "a stream without usage": Kind(CHAT, chat_request("Hi", stream=True), STREAM, True, media_type=SSE),
    "several answers": Kind(CHAT, chat_request("Hi", n=2), chat_answer("y", choices=TWO_CHOICES)),
    "a list of prompts": Kind(
        COMPLETIONS,
        {"model": "gpt-3.5-turbo-instruct", "prompt": ["a", "b"]},
        {"choices": [{"index": index, "text": "y", "finish_reason": "stop"} for index in (0, 1)]},
    ),
    "an embedding": Kind("/v1/embeddings", {"model": "e", "input": "x"}, {"data": [{"embedding": [0.5]}]}),
    "an image": Kind("/v1/images/generations", {"model": "i", "prompt": "x"}, {"data": [{"b64_json": "aGk="}]}),
    "a spoken text": Kind("/v1/audio/speech", {"model": "t", "input": "x"}, b"\xff\xf3\x00", media_type="audio/mpeg"),
    "a transcription": Kind("/v1/audio/transcriptions", FORM, {"text": "y"}, request_media_type=MULTIPART),
    "an error": Kind(CHAT, chat_request("Hi"), {"error": {"message": "slow down"}}, status=429),
    "a page instead of JSON": Kind(CHAT, chat_request("Hi"), b"<html>", status=502, media_type="text/html"),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_call_that_is_recorded_can_be_approved(kind: Kind, tmp_path: Path) -> None:
    """As a record, or as its raw response alone, and labelled with what is checked; its bytes are replayed."""
    (change,) = propose(kind.call()).changes
    project = Project(tmp_path / "project")
    project.approve(SnapshotChange(change.provider, change.id, change.record, change.raw_response_text.encode()))
    (recording,) = build_recordings([approve_change(change)], KEYS)

    assert (ChangeKind.NEW, (), "request") == (change.kind, change.reasons, change.gate)
    assert (kind.has_record, True) == (change.record is not None, bool(change.gate_reason))
    assert kind.call().chunks == recording.source.load_response().chunks
