"""Content that only the keyring opens.

In: bytes, and where they are kept. Out: what the database may hold. Never: a key in the clear outside of memory, or
content that opens in another row than its own.

Every row has a random data key. What it holds is AES-256-GCM under that key, a random nonce of 12 bytes in front; the
data key is AES-256-GCM under the key of the project's generation, in the same way. Both are bound to the project, the
table and the row, so that a row that was moved or exchanged does not open.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from traceforge.context.storage.keyring import KEY_BYTES, Keyring
from traceforge.errors import StoreUnavailable

NONCE_BYTES = 12
_FRESH = KEY_BYTES + NONCE_BYTES


class BrokenSeal(StoreUnavailable):
    """A row was damaged or exchanged. To try again does not help."""


class SealedColumns(NamedTuple):
    """The columns of a row that holds something."""

    sealed: bytes
    wrapped_key: bytes
    generation: int


class RowKey:
    """One row's data key: seals and opens each of its columns."""

    __slots__ = ("_associated_data", "_cipher", "generation", "wrapped_key")

    def __init__(self, cipher: AESGCM, place: bytes, wrapped_key: bytes, generation: int) -> None:
        self._cipher = cipher
        self._associated_data = place
        self.wrapped_key = wrapped_key
        self.generation = generation

    def seal(self, data: bytes, column: bytes = b"sealed") -> bytes:
        """What the column holds."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, self._associated_data + column)

    def open(self, sealed: bytes, column: bytes = b"sealed") -> bytes:
        """What was sealed.

        Raises:
            StoreUnavailable: it was damaged, or belongs somewhere else.
        """
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], self._associated_data + column)
        except (InvalidTag, ValueError):
            raise _damaged(self._associated_data) from None


class Sealer:
    """Seals and opens the rows of one project."""

    def __init__(self, keyring: Keyring, project_id: str) -> None:
        self._keyring = keyring
        self._project_id = project_id

    def new_row_key(self, table: str, row_id: str, generation: int) -> RowKey:
        """A data key for a new row, under the key of this generation."""
        fresh = os.urandom(_FRESH)
        key, nonce = fresh[:KEY_BYTES], fresh[KEY_BYTES:]
        place = self._associated_data(table, row_id)
        wrapped = nonce + self._keyring.cipher(self._project_id, generation).encrypt(nonce, key, place)
        return RowKey(AESGCM(key), place, wrapped, generation)

    def load_row_key(self, table: str, row_id: str, wrapped_key: bytes, generation: int) -> RowKey:
        """The data key of a row that is there.

        Raises:
            StoreUnavailable: the key of its generation is gone, or the row was damaged.
        """
        place = self._associated_data(table, row_id)
        return RowKey(AESGCM(self._unwrap(place, wrapped_key, generation)), place, wrapped_key, generation)

    def seal(self, table: str, row_id: str, generation: int, data: bytes) -> SealedColumns:
        """The three columns of a row that holds one thing."""
        load_row_key = self.new_row_key(table, row_id, generation)
        return SealedColumns(load_row_key.seal(data), load_row_key.wrapped_key, generation)

    def open(self, table: str, row_id: str, row: SealedColumns) -> bytes:
        """What such a row holds."""
        return self.load_row_key(table, row_id, row.wrapped_key, row.generation).open(row.sealed)

    def rewrap(self, table: str, row_id: str, wrapped_key: bytes, old: int, new: int) -> bytes:
        """The same data key under the key of another generation: what it sealed stays as it is."""
        place = self._associated_data(table, row_id)
        key = self._unwrap(place, wrapped_key, old)
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._keyring.cipher(self._project_id, new).encrypt(nonce, key, place)

    def _unwrap(self, place: bytes, wrapped_key: bytes, generation: int) -> bytes:
        cipher = self._keyring.cipher(self._project_id, generation)
        try:
            return cipher.decrypt(wrapped_key[:NONCE_BYTES], wrapped_key[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            raise _damaged(place) from None

    def _associated_data(self, table: str, row_id: str) -> bytes:
        return f"{self._project_id}\n{table}\n{row_id}\n".encode()


def _damaged(place: bytes) -> BrokenSeal:
    _, table, row_id = place.decode().split("\n")[:3]
    return BrokenSeal(
        f"{row_id} in {table} does not open: it was damaged, or it is not the row that was written",
        hint="Restore the database and its keyring from the same backup.",
    )
