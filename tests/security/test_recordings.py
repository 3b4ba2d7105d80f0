"""Model IO recordings: no secret of a prompt is stored, and a journal that somebody else wrote does no harm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random

import pytest

from support.fake_secrets import draw
from traceforge.canon import JSONObject, digest_text
from traceforge.errors import CannotRead, InvalidFile, PathInUse
from traceforge.modelio.adapter import Completion, Context, Stream
from traceforge.modelio.prompt import Prompt
from traceforge.modelio.recording import RecordingSession, recover_recording
from traceforge.modelio.recording_format import INTERACTIONS_MAX, RESPONSE_BYTES_MAX

KEY = "sk-proj-" + draw(Random(3), 48)
PASSWORD = "q7bz4kitten"
HEADER: JSONObject = {
    "journal": "1.0.0", "adapter_id": "a", "model_id": "m", "mode": "record", "created_at_utc": "2026-01-01T00:00:00Z"
}  # fmt: skip


class Echo:
    """An adapter that always gives the same answer."""

    def __init__(self, text: str, adapter_id: str = "echo", model_id: str = "m") -> None:
        self._text = text
        self.adapter_id = adapter_id
        self.model_id = model_id

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        return Completion(self._text)

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        def pieces() -> Generator[str, None, Completion]:
            yield from (self._text[:4], self._text[4:])
            return Completion(self._text)

        return Stream(pieces())


def record(folder: Path, adapter: Echo, prompt: Prompt, *, streamed: bool = False) -> str:
    """Everything that a recording stored: the journal while it was open, and the finished file."""
    path = folder / "session.json"
    with RecordingSession(path, adapter) as session:
        if streamed:
            list(session.adapter.stream(prompt))
        else:
            session.adapter.complete(prompt)
        journal = Path(f"{path}.journal").read_text(encoding="utf-8")
    return journal + path.read_text(encoding="utf-8")


MESSAGES: list[JSONObject] = [{"role": "user", "content": f"password: {PASSWORD}"}]
MESSAGE = json.dumps({"content": f"it is {PASSWORD}", "role": "assistant"}, separators=(",", ":"))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("prompt", [f"password: {PASSWORD}", MESSAGES])
@pytest.mark.parametrize("answer", [f"it is {PASSWORD}", MESSAGE, f"https://h/x?q={PASSWORD}"])
def test_an_answer_that_repeats_a_secret_of_its_prompt_is_stored_without_it(
    answer: str, prompt: Prompt, streamed: bool, tmp_path: Path
) -> None:
    stored = record(tmp_path, Echo(answer), prompt, streamed=streamed)

    assert PASSWORD not in stored
    assert "[REDACTED]" in stored


@pytest.mark.parametrize("ids", [("echo", KEY), ("echo", f"tuned-{KEY}"), (KEY, "m")])
def test_a_key_in_the_id_of_an_adapter_or_model_is_not_stored(ids: tuple[str, str], tmp_path: Path) -> None:
    assert KEY not in record(tmp_path, Echo("hello", *ids), "hello")


def interaction(n: int, text: str = "x") -> JSONObject:
    hashes: JSONObject = {"prompt_hash": digest_text("p"), "response_hash": digest_text(text)}
    content: JSONObject = {**hashes, "response_content": text, "latency_ms": 1}
    return {"n": n, "interaction": content}


def write_journal(folder: Path, interactions: list[JSONObject]) -> Path:
    path = folder / "session.json"
    lines = "".join(json.dumps(line) + "\n" for line in [HEADER, *interactions])
    Path(f"{path}.journal").write_text(lines, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["too many", "too long"])
def test_a_journal_that_exceeds_a_recording_is_refused(name: str, tmp_path: Path) -> None:
    interactions = {
        "too many": [interaction(n) for n in range(INTERACTIONS_MAX + 1)],
        "too long": [interaction(0, "y" * (RESPONSE_BYTES_MAX + 1))],
    }[name]
    path = write_journal(tmp_path, interactions)

    with pytest.raises(InvalidFile, match="longer responses"):
        recover_recording(path)

    assert not path.exists()


OTHER_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a link to a file": lambda path: path.symlink_to(path.parent / "mine"),
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nothing"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_a_journal_that_is_no_file_is_neither_read_nor_written(name: str, tmp_path: Path) -> None:
    """A pipe in a checkout once stopped `modelio recover` for ever."""
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    OTHER_FILES[name](tmp_path / "session.json.journal")

    with pytest.raises(CannotRead):
        recover_recording(tmp_path / "session.json")
    with pytest.raises(PathInUse):
        RecordingSession(tmp_path / "session.json", Echo("x"))

    assert mine.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "nothing").exists()


def test_a_recording_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    mine, link = tmp_path / "mine", tmp_path / "session.json"
    mine.write_text("mine", encoding="utf-8")
    link.symlink_to(mine)

    with RecordingSession(link, Echo("x"), overwrite=True) as session:
        session.adapter.complete("hello")

    assert mine.read_text(encoding="utf-8") == "mine"
    assert not link.is_symlink()
