"""The prompt layers of a request: system, developer, session, history, message.

In: a folder with `system.md`, `developer.md` and `session.md`. Out: their texts, byte for byte as UTF-8, their
hashes, and the messages of one request in their fixed order. Never: changes a text, adds or removes a newline.

`system.md` and `developer.md` are read once, at the start; `session.md` is read with every request.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from traceforge.canon import JSONObject, digest_bytes
from traceforge.errors import CannotRead
from traceforge.files import read_file

SYSTEM, DEVELOPER, SESSION = "system.md", "developer.md", "session.md"
BUNDLED = Path(__file__).parent / "prompts"
PROMPT_BYTES_MAX = 1 << 20  # More than any model reads at once; a larger file is not a prompt.


class Prompt:
    """The content of a prompt file at the time it was read."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode()
        self._data = data

    @cached_property
    def hash(self) -> str:
        """What `sha256sum` prints for the file."""
        return digest_bytes(self._data).partition(":")[2]


class PromptLayers(NamedTuple):
    """The three prompts of one request."""

    system: Prompt
    developer: Prompt
    session: Prompt


class ConversationMessage(NamedTuple):
    """One message, with the role that the provider's API gives its author."""

    role: str
    content: str


class PromptFolder:
    """The prompt files of one server.

    Raises:
        CannotRead: a file is missing, too large, or not UTF-8.
    """

    def __init__(self, folder: Path) -> None:
        self._session = folder / SESSION
        self._system = read_prompt(folder / SYSTEM)
        self._developer = read_prompt(folder / DEVELOPER)
        self.read_layers()  # So that a missing file stops the server's start, and not the first request.

    def read_layers(self) -> PromptLayers:
        """The prompts for a request that comes now.

        Raises:
            CannotRead: `session.md` was removed, or has become unreadable.
        """
        return PromptLayers(self._system, self._developer, read_prompt(self._session))


def read_prompt(path: Path) -> Prompt:
    """Read one prompt file.

    Raises:
        CannotRead: it is missing, not a file, too large, or not UTF-8.
    """
    try:
        return Prompt(read_file(str(path), bytes_max=PROMPT_BYTES_MAX))
    except UnicodeDecodeError as exc:
        hint = "Save it as UTF-8."
        raise CannotRead(str(path), f"not UTF-8 at byte {exc.start}", hint=hint) from None
    except CannotRead as exc:
        if not path.is_file():
            exc.hint = f"A folder of prompts has {SYSTEM}, {DEVELOPER} and {SESSION}; an empty file is fine."
        raise


def compose_messages(
    layers: PromptLayers, history: Iterable[ConversationMessage], message: str, *, developer_role: str = "developer"
) -> list[JSONObject]:
    """The messages of one request; no API has a role for the session layer, so it gets the role `system`."""
    messages = [
        ConversationMessage("system", layers.system.text),
        ConversationMessage(developer_role, layers.developer.text),
        ConversationMessage("system", layers.session.text),
        *history,
        ConversationMessage("user", message),
    ]
    return [{"role": message.role, "content": message.content} for message in messages]
