"""`chat/prompt_layers.py`: four layers in a fixed order, byte for byte, and their hashes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.chat_servers import PROMPTS, write_prompts
from traceforge.chat.prompt_layers import BUNDLED, ConversationMessage, PromptFolder, compose_messages, read_prompt
from traceforge.errors import CannotRead

NAMES = list(PROMPTS)


def _sha256sum(path: Path) -> str:
    return subprocess.run(["sha256sum", str(path)], capture_output=True, text=True, check=True).stdout.split()[0]


def test_the_layers_come_in_their_order(tmp_path: Path) -> None:
    """System, developer, session as system, the history, the message; no role is called session."""
    layers = PromptFolder(write_prompts(tmp_path)).read_layers()
    history = [ConversationMessage("user", "a"), ConversationMessage("assistant", "b")]

    assert [
        {"role": "system", "content": "You are careful.\n"},
        {"role": "developer", "content": "Answer shortly."},
        {"role": "system", "content": "It is Monday.\n"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ] == compose_messages(layers, history, "c")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_an_error_at_the_start(tmp_path: Path, name: str) -> None:
    """Also the one that is read again with every request."""
    (write_prompts(tmp_path) / name).unlink()

    with pytest.raises(CannotRead, match=f"{name}: no such file") as caught:
        PromptFolder(tmp_path)
    assert "system.md, developer.md and session.md" in caught.value.hint


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["folder", "fifo", "not UTF-8", "too large"])
def test_an_unreadable_prompt_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    """A folder, a FIFO without a writer, another encoding, a file of a megabyte and a byte."""
    path = write_prompts(tmp_path) / name
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(b"caf\xe9" if kind == "not UTF-8" else b"x" * ((1 << 20) + 1))

    with pytest.raises(CannotRead, match=name):
        PromptFolder(tmp_path)


def test_only_the_session_prompt_is_read_again(tmp_path: Path) -> None:
    """Its hash changes with the file; the other two hashes stay as they were at the start."""
    prompts = PromptFolder(write_prompts(tmp_path))
    before = [prompt.hash for prompt in prompts.read_layers()]
    for name in NAMES:
        (tmp_path / name).write_text(f"changed {name}")
    after = [prompt.hash for prompt in prompts.read_layers()]

    assert before[:2] == after[:2]
    assert before[2] != after[2]
    assert _sha256sum(tmp_path / "session.md") == after[2]
    assert "changed session.md" == prompts.read_layers().session.text


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(), st.text().map(str.encode), st.sampled_from([b"", b"\xef\xbb\xbfx", b"a\r\nb\r\n"])))
def test_a_prompt_hash_is_that_of_sha256sum(tmp_path: Path, data: bytes) -> None:
    """Byte for byte: no newline is added, no byte-order mark or carriage return removed."""
    path = tmp_path / "system.md"
    path.write_bytes(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(CannotRead, match="not UTF-8"):
            read_prompt(path)
        return
    prompt = read_prompt(path)

    assert (_sha256sum(path), text) == (prompt.hash, prompt.text)


def test_the_bundled_prompts_can_be_used() -> None:
    """They come with the package."""
    assert all(prompt.text for prompt in PromptFolder(BUNDLED).read_layers())
