"""`modelio/recording_journal.py`: what a recording that was not finished leaves behind, and who may overwrite it."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.mock_recordings import REDACTOR, record_answers
from traceforge.canon import parse_json
from traceforge.errors import CannotRead, CannotWrite, InvalidFile, PathInUse
from traceforge.modelio import (
    MockAdapter,
    RecordingSession,
    ValidRecording,
    model_io_hash,
    recover_recording,
    verify_session,
)


def test_completed_interactions_are_recovered_from_a_journal(tmp_path: Path) -> None:
    """Without the end of the session, and with a line that was cut short: the same recording."""
    path, complete_path = tmp_path / "r.json", tmp_path / "whole.json"
    record_answers(complete_path, "one", "two")
    session = RecordingSession(path, MockAdapter(["one", "two"]), redactor=REDACTOR)
    session.adapter.complete("prompt 0")
    session.adapter.complete("prompt 1")
    journal = (tmp_path / "r.json.journal").read_bytes()
    os.close(session._journal._descriptor)
    (tmp_path / "r.json.journal").write_bytes(journal + b'{"interaction":{"latency_ms":1,"prompt_ha')
    written = recover_recording(path)

    assert (2, model_io_hash(json.loads(complete_path.read_bytes()))) == (written.interactions, written.model_io_hash)
    assert ValidRecording(2, written.model_io_hash) == verify_session(parse_json(path.read_bytes()))
    assert ["r.json", "whole.json"] == sorted(os.listdir(tmp_path))
    assert "ended_at_utc" not in json.loads(path.read_bytes())


def test_every_prefix_of_a_journal_is_a_valid_recording(tmp_path: Path) -> None:
    """Wherever the power went: the interactions whose lines are whole, and nothing else."""
    path = tmp_path / "r.json"
    session = RecordingSession(path, MockAdapter(["one", "two é"]), redactor=REDACTOR)
    session.adapter.complete("a")
    session.adapter.complete("b")
    os.close(session._journal._descriptor)
    data = (tmp_path / "r.json.journal").read_bytes()
    head = data.index(b"\n") + 1

    for size in [*range(head, len(data), 9), len(data) - 1, len(data)]:
        (tmp_path / "r.json.journal").write_bytes(data[:size])
        assert data[head:size].count(b"\n") == recover_recording(path, overwrite=True).interactions
        assert isinstance(verify_session(parse_json(path.read_bytes())), ValidRecording)


def test_a_second_recording_at_the_same_path_is_refused(tmp_path: Path) -> None:
    """Nothing is overwritten; the error says what to do, and the running recording goes on."""
    path = tmp_path / "r.json"
    session = RecordingSession(path, MockAdapter(["one"]), redactor=REDACTOR)
    with pytest.raises(PathInUse) as caught:
        RecordingSession(path, MockAdapter([]), redactor=REDACTOR)
    with pytest.raises(PathInUse, match="still records"):
        recover_recording(path)
    session.adapter.complete("a")

    assert f"traceforge modelio recover {path}" in caught.value.hint
    assert 1 == session.close().interactions


def test_a_finished_recording_is_overwritten_only_on_request(tmp_path: Path) -> None:
    """A second recording at its path is refused before the model is called, and the file keeps its bytes."""
    path = tmp_path / "r.json"
    record_answers(path, "one")
    before = path.read_bytes()
    model = MockAdapter(["two"])

    with (
        pytest.raises(PathInUse, match="already exists") as caught,
        RecordingSession(path, model, redactor=REDACTOR) as session,
    ):
        session.adapter.complete("a")
    assert "--force" in caught.value.hint
    assert ([], before, ["r.json"]) == (model.prompts, path.read_bytes(), os.listdir(tmp_path))
    with RecordingSession(path, model, redactor=REDACTOR, overwrite=True) as session:
        session.adapter.complete("a")
        assert before == path.read_bytes()  # until the new one is complete
    assert "two" == json.loads(path.read_bytes())["interactions"][0]["response_content"]


def test_a_file_that_appears_while_a_recording_runs_is_not_overwritten(tmp_path: Path) -> None:
    """The answers stay in the journal, and `recover` writes them on request only."""
    path = tmp_path / "r.json"
    session = RecordingSession(path, MockAdapter(["one"]), redactor=REDACTOR)
    session.adapter.complete("a")
    path.write_text("of somebody else")

    with pytest.raises(PathInUse) as refused:
        session.close()
    os.close(session._journal._descriptor)
    with pytest.raises(PathInUse) as caught:
        recover_recording(path)
    assert f"Move the file away, then: traceforge modelio recover {path}" in refused.value.hint
    assert refused.value.hint == caught.value.hint
    assert "of somebody else" == path.read_text()
    assert 1 == recover_recording(path, overwrite=True).interactions
    assert ["r.json"] == os.listdir(tmp_path)


def test_a_journal_beside_its_own_recording_is_removed(tmp_path: Path) -> None:
    """The process was killed between the two steps: nothing is left to write."""
    path, journal = tmp_path / "r.json", tmp_path / "r.json.journal"
    session = RecordingSession(path, MockAdapter(["one"]), redactor=REDACTOR)
    session.adapter.complete("a")
    left = journal.read_bytes()
    session.close()
    journal.write_bytes(left)
    before = path.read_bytes()

    assert session.model_io_hash == recover_recording(path).model_io_hash
    assert (before, ["r.json"]) == (path.read_bytes(), os.listdir(tmp_path))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data.replace(b'"journal"', b'"diary"'), "not a journal of version"),
        (lambda data: data.replace(b'"mode":"record"', b'"mode":"live"'), "not a journal of version"),
        (lambda data: data.replace(b'"n":0', b'"m":0'), "a missing or changed interaction at byte"),
        (lambda data: data.replace(b'"n":0', b'"n":true'), "changed interaction at byte"),
        (lambda data: data.replace(b'"one"', b'"two"'), "changed interaction at byte"),
        (
            lambda data: data.replace(b'prompt_hash":"sha256:', b'prompt_hash":"SHA256:'),
            "changed interaction at byte",
        ),
        (lambda data: data.replace(b'"n":0', b'"n":'), "not JSON"),
        (lambda data: b"[]\n", "is not an object"),
        (lambda data: b"", "the first line is missing"),
    ],
)
def test_a_changed_journal_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes], reason: str) -> None:
    """It is left as it is."""
    path = tmp_path / "r.json"
    session = RecordingSession(path, MockAdapter(["one"]), redactor=REDACTOR)
    session.adapter.complete("a")
    os.close(session._journal._descriptor)
    journal = tmp_path / "r.json.journal"
    journal.write_bytes(damage(journal.read_bytes()))
    before = journal.read_bytes()

    with pytest.raises(InvalidFile, match=reason):
        recover_recording(path)
    assert before == journal.read_bytes()


def test_without_a_journal_nothing_can_be_recovered(tmp_path: Path) -> None:
    """The error says so, and no file is written."""
    with pytest.raises(CannotRead, match="no such file"):
        recover_recording(tmp_path / "r.json")
    assert [] == os.listdir(tmp_path)


def test_a_full_disk_loses_only_the_answer_that_did_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is taken back whole, and the next call is recorded."""
    path = tmp_path / "r.json"
    real = os.write
    full = threading.Event()

    def write(descriptor: int, data: Any) -> int:
        if full.is_set():
            real(descriptor, bytes(data)[:7])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    with RecordingSession(path, MockAdapter(["one", "two", "three"]), redactor=REDACTOR) as session:
        session.adapter.complete("a")
        full.set()
        with pytest.raises(CannotWrite, match="no space left"):
            session.adapter.complete("b")
        full.clear()
        session.adapter.complete("c")

    assert ["one", "three"] == [item["response_content"] for item in json.loads(path.read_bytes())["interactions"]]


def test_a_missing_folder_is_reported_before_the_model_is_called(tmp_path: Path) -> None:
    """A recording that cannot be kept is not begun."""
    with pytest.raises(CannotWrite, match="no such file"):
        RecordingSession(tmp_path / "nowhere" / "r.json", MockAdapter([]), redactor=REDACTOR)
