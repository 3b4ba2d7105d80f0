"""The prompt layers: system, developer, session, and then what was said.

In: a folder with `system.md`, `developer.md` and `session.md`. Out: their texts, byte for byte as UTF-8, their
hashes, and the messages of one request in their fixed order. Never: changes a text, adds a newline or takes one away.

`system.md` and `developer.md` are read once, at the start; `session.md` with every request.
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
    """One prompt file as it was when it was read."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode()
        self._data = data

    @cached_property
    def hash(self) -> str:
        """What `sha256sum` prints of the file."""
        return digest_bytes(self._data).partition(":")[2]


class Layers(NamedTuple):
    """The three prompts of one request."""

    system: Prompt
    developer: Prompt
    session: Prompt


class Message(NamedTuple):
    """One thing that was said."""

    role: str
    content: str


class Prompts:
    """The prompts of one server.

    Raises:
        CannotRead: a file is missing, too large, or not UTF-8.
    """

    def __init__(self, folder: Path) -> None:
        self._session = folder / SESSION
        self._system = read_prompt(folder / SYSTEM)
        self._developer = read_prompt(folder / DEVELOPER)
        self.layers()  # A file that is missing is said at the start, not to the first person who asks.

    def layers(self) -> Layers:
        """The prompts as they are in force now.

        Raises:
            CannotRead: `session.md` is gone, or has become unreadable.
        """
        return Layers(self._system, self._developer, read_prompt(self._session))


def read_prompt(path: Path) -> Prompt:
    """Read one prompt file.

    Raises:
        CannotRead: it is missing, no file, too large, or not UTF-8.
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


def compose(
    layers: Layers, history: Iterable[Message], message: str, *, developer_role: str = "developer"
) -> list[JSONObject]:
    """The messages of one request; no role is called session, so that layer speaks as the system."""
    said = [
        Message("system", layers.system.text),
        Message(developer_role, layers.developer.text),
        Message("system", layers.session.text),
        *history,
        Message("user", message),
    ]
    return [{"role": one.role, "content": one.content} for one in said]
