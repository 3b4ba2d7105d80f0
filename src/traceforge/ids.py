"""The one source of ids.

Out: an opaque handle, a prefix and 26 random Crockford base32 characters (130 bits). Never: an id that depends on the
content; content has digests. Tests pin it with `seeded`.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u.
LENGTH = 26
SPARE = 64  # UUIDs are needed with every call; asking the system for each takes longer than making one.
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}  # Two bits of a UUID are fixed.

_DIGITS = ALPHABET.encode() * 8  # One for each byte: 32 divides 256, so no character is likelier.

_source: ContextVar[random.Random | None] = ContextVar("source", default=None)

_spare: deque[str] = deque()  # Random texts that were not used yet.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spare.clear)  # A child must not make its parent's ids again.


def new_id(prefix: str) -> str:
    """Make an id such as `snp_01jy…`; `prefix` is given without its underscore."""
    source = _source.get()
    if source is not None:
        return f"{prefix}_{''.join(source.choice(ALPHABET) for _ in range(LENGTH))}"
    return f"{prefix}_{os.urandom(LENGTH).translate(_DIGITS).decode()}"


def new_uuid() -> str:
    """Make a random UUID (version 4), for what is named by one."""
    source = _source.get()
    if source is not None:
        text = source.randbytes(16).hex()
    else:
        try:
            text = _spare.popleft()
        except IndexError:
            digits = os.urandom(16 * (SPARE + 1)).hex()
            text = digits[:32]
            _spare.extend(digits[start : start + 32] for start in range(32, len(digits), 32))
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


def id_pattern(prefix: str) -> str:
    """The regular expression that every id with this prefix matches."""
    return rf"^{prefix}_[0-9a-hjkmnp-tv-z]{{{LENGTH}}}$(?!\n)"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make ids repeatable, in this context only."""
    token = _source.set(random.Random(seed))  # noqa: S311 (a test wants the same ids again)
    try:
        yield
    finally:
        _source.reset(token)
