"""Content that only the keyring opens.

In: bytes, and the row they are stored in. Out: ciphertext for the database. Never: a plain key outside of memory, or
content that opens in another row than its own.

Every row has a random data key. Its content is AES-256-GCM under that key, with a random nonce of 12 bytes in front.
The data key is AES-256-GCM under the key of the project's generation, in the same way. Both are bound to the project,
the table and the row (as associated data), so that a row that was moved or exchanged does not open.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Row

from traceforge.context.storage.keyring import KEY_BYTES, Keyring
from traceforge.errors import StoreUnavailable

NONCE_BYTES = 12
_KEY_AND_NONCE_BYTES = KEY_BYTES + NONCE_BYTES


class BrokenSeal(StoreUnavailable):
    """A row was damaged or exchanged. Trying again does not help."""


class SealedColumns(NamedTuple):
    """The columns that every sealed row has."""

    sealed: bytes
    wrapped_key: bytes
    generation: int


class RowKey:
    """One row's data key: seals and opens each of its columns."""

    __slots__ = ("_associated_data", "_cipher", "generation", "wrapped_key")

    def __init__(self, cipher: AESGCM, associated_data: bytes, wrapped_key: bytes, generation: int) -> None:
        self._cipher = cipher
        self._associated_data = associated_data
        self.wrapped_key = wrapped_key
        self.generation = generation

    def seal(self, data: bytes, column: bytes = b"sealed") -> bytes:
        """Encrypt the content of a column."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, self._associated_data + column)

    def open(self, sealed: bytes, column: bytes = b"sealed") -> bytes:
        """Decrypt the content of a column.

        Raises:
            BrokenSeal: it was damaged, or belongs to another row or column.
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
        """Make the data key of a new row, wrapped under the key of this generation."""
        random_bytes = os.urandom(_KEY_AND_NONCE_BYTES)
        key, nonce = random_bytes[:KEY_BYTES], random_bytes[KEY_BYTES:]
        associated_data = self._associated_data(table, row_id)
        wrapped = nonce + self._keyring.cipher(self._project_id, generation).encrypt(nonce, key, associated_data)
        return RowKey(AESGCM(key), associated_data, wrapped, generation)

    def load_row_key(self, table: str, row_id: str, wrapped_key: bytes, generation: int) -> RowKey:
        """Unwrap the data key of a stored row.

        Raises:
            KeyMissing: the key of its generation was destroyed.
            BrokenSeal: the row was damaged.
        """
        associated_data = self._associated_data(table, row_id)
        return RowKey(
            AESGCM(self._unwrap(associated_data, wrapped_key, generation)), associated_data, wrapped_key, generation
        )

    def seal(self, table: str, row_id: str, generation: int, data: bytes) -> SealedColumns:
        """Seal the content of a new row that has one sealed column."""
        row_key = self.new_row_key(table, row_id, generation)
        return SealedColumns(row_key.seal(data), row_key.wrapped_key, generation)

    def open(self, table: str, row_id: str, row: SealedColumns) -> bytes:
        """Open the content of a row that has one sealed column."""
        return self.load_row_key(table, row_id, row.wrapped_key, row.generation).open(row.sealed)

    def seal_text(self, table: str, row_id: str, generation: int, text: str) -> dict[str, Any]:
        """The columns of a row whose only sealed content is a text; they are null where it is empty."""
        if not text:
            return dict.fromkeys(SealedColumns._fields)
        return self.seal(table, row_id, generation, text.encode())._asdict()

    def open_text(self, table: str, row: Row[*tuple[Any, ...]]) -> str:
        """The text that `seal_text` sealed."""
        if row.sealed is None:
            return ""
        return self.open(table, row.id, SealedColumns(row.sealed, row.wrapped_key, row.generation)).decode()

    def rewrap(self, table: str, row_id: str, wrapped_key: bytes, old: int, new: int) -> bytes:
        """Wrap a data key under the key of another generation; the content stays as it is."""
        associated_data = self._associated_data(table, row_id)
        key = self._unwrap(associated_data, wrapped_key, old)
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._keyring.cipher(self._project_id, new).encrypt(nonce, key, associated_data)

    def _unwrap(self, associated_data: bytes, wrapped_key: bytes, generation: int) -> bytes:
        cipher = self._keyring.cipher(self._project_id, generation)
        try:
            return cipher.decrypt(wrapped_key[:NONCE_BYTES], wrapped_key[NONCE_BYTES:], associated_data)
        except (InvalidTag, ValueError):
            raise _damaged(associated_data) from None

    def _associated_data(self, table: str, row_id: str) -> bytes:
        return f"{self._project_id}\n{table}\n{row_id}\n".encode()


def _damaged(associated_data: bytes) -> BrokenSeal:
    _, table, row_id = associated_data.decode().split("\n")[:3]
    return BrokenSeal(
        f"{row_id} in {table} cannot be decrypted: the row was damaged or exchanged",
        hint="Restore the database and its keyring from the same backup.",
    )
