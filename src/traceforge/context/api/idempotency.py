"""Idempotency keys: an operation that is sent twice with one key is done once.

In: an operation, its arguments and the caller's key. Out: the status and the bytes of the first answer. Never: a
second effect, an answer without its effect, or a key that a crash leaves behind.

A key is identified by (project, path, key) and bound to the digest of the canonical JSON of the body, so neither
spaces nor the order of names make a different body. The row of the key, the effect and the answer are written in one
transaction, so a crash leaves all of them or none. A second call with the same key waits for that transaction, at
most `WAIT_S`, and gets its answer.

A refused call wrote nothing and is not remembered: the key may be sent again, with the same body or another.

An operation that takes longer than a transaction should claims the key under a lease in its first transaction
(`claim_key`), renews the lease while it works (`renew_claim`) and stores its answer in its last transaction
(`store_answer`). Meanwhile a second call gets 409; after the lease has expired, it resumes the operation.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import and_, delete, insert, select, update

from traceforge.canon import JSON, Digest, digest_canonical, digest_text
from traceforge.clock import days_ago, now, now_text, timestamp_text
from traceforge.context.api.operation_types import Operation, OperationArguments
from traceforge.context.api.request_decoding import check_key
from traceforge.context.project_store import Store
from traceforge.context.storage.dialect_statements import LockTimeout
from traceforge.context.storage.leases import has_lease
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.context.storage.tables import idempotency, idempotency_subjects
from traceforge.conversion import encode_json
from traceforge.errors import ContentPurged, StoreRefused
from traceforge.ids import LENGTH

TABLE = "idempotency"
KEPT_DAYS = 1.0  # A retry comes within seconds; a day covers a queue that was stopped overnight.
LEASE_S = 30.0
WAIT_S = 20  # For a call with the same key that is being committed (PostgreSQL; SQLite has one writer anyway).

_ID = re.compile(rf"(?:prj|art|bnd|ses|br|evt|snp|rsp|rpl|pjb|pur)_[0-9a-hjkmnp-tv-z]{{{LENGTH}}}\Z")
_NOT_SUBJECTS = frozenset(("content", "content_base64", "metadata", "ordered_block_manifest"))


class EncodedResponse(NamedTuple):
    """A status, and the bytes of a body."""

    status: int
    body: bytes
    streamed: bool = False  # Whether the body is the events of a stream.
    response_id: str | None = None  # The response of a repeated answer.


class IdempotencyKey(NamedTuple):
    """A key as it is stored."""

    path: str
    key_digest: Digest
    body_digest: Digest
    text: str = ""  # The key itself, which is not stored.

    @property
    def row_id(self) -> str:
        """The name to which the encryption of the row is bound."""
        return row_id(self.path, self.key_digest)


class KeyClaim(NamedTuple):
    """The result of a claim: `new`, `resumed` after a crash (with the response that was started), or `answered`."""

    state: Literal["new", "resumed", "answered"]
    answer: EncodedResponse | None = None
    response_id: str | None = None


def row_id(path: str, key_digest: str) -> str:
    """The name to which the encryption of a row is bound."""
    return f"{path} {key_digest}"


def make_key(path: str, key: str, body: JSON) -> IdempotencyKey:
    """A key bound to a body; a call without a body has the body null."""
    return IdempotencyKey(path, digest_text(check_key(key)), digest_canonical(body), key)


def perform_operation(
    store: Store, operation: Operation, arguments: OperationArguments, key: str | None = None, body: JSON = None
) -> EncodedResponse:
    """Do an operation; with a key, once.

    Raises:
        StoreRefused: the operation was refused, or the key is in use or was used with another body.
        StoreUnavailable: the database cannot be used.
    """
    if key is None:
        return encode_response(operation, operation.call(store, arguments))
    idempotency_key = make_key(operation.fill_path(arguments.ids), key, body)
    if operation.idempotent_call is not None:
        return operation.idempotent_call(store, arguments, operation, idempotency_key)
    return store.transaction(lambda joined: perform_once(joined, operation, arguments, idempotency_key))


def perform_once(
    store: Store, operation: Operation, arguments: OperationArguments, key: IdempotencyKey
) -> EncodedResponse:
    """Claim the key, do the operation and store the answer, in the transaction that `store` has joined."""
    tx = store.tx
    claimed = claim_key(tx, key)
    if claimed.answer is not None:
        return claimed.answer
    result = operation.call(store, arguments)
    answer = encode_response(operation, result)
    store_answer(tx, key, answer, collect_subjects(arguments.ids, result))
    return answer


def encode_response(operation: Operation, result: Any) -> EncodedResponse:  # noqa: ANN401 (any answer)
    """The answer of an operation as status and bytes."""
    return EncodedResponse(operation.status, encode_json(result))


def claim_key(
    tx: StoreTransaction, key: IdempotencyKey, *, owner: str | None = None, lease_s: float = LEASE_S
) -> KeyClaim:
    """Claim a key, or find the answer of the call that has it.

    Raises:
        StoreRefused: it was used with another body (422), or its call is in flight (409).
        ContentPurged: content of the answer was purged.
    """
    until = timestamp_text(now() + timedelta(seconds=lease_s))
    new_row = {
        "project_id": tx.project_id, "path": key.path, "key_digest": key.key_digest, "body_digest": key.body_digest,
        "lease_owner": owner, "lease_until": until, "created_at": now_text(),
    }  # fmt: skip
    try:
        is_new = tx.insert_missing_within(idempotency, new_row, WAIT_S)
    except LockTimeout:
        raise key_in_use() from None
    if is_new:
        return KeyClaim("new")
    row = tx.fetch_one(select(idempotency).where(_matches(tx, key)).with_for_update())
    if row is None:  # It was released at this very moment.
        raise key_in_use()
    if row.body_digest != key.body_digest:
        raise StoreRefused(
            "this idempotency key was used with another body", reason="idempotency_key_reused", status=422,
            param="Idempotency-Key", hint="Use a key once for each thing that is to be done.",
        )  # fmt: skip
    if row.purged_by is not None:
        raise ContentPurged("the answer to this idempotency key", row.purged_by)
    if row.status is not None:
        sealed = SealedColumns(row.sealed, row.wrapped_key, row.generation)
        body = tx.sealer.open(TABLE, key.row_id, sealed)
        answer = EncodedResponse(row.status, body, response_id=row.response_id)
        return KeyClaim("answered", answer, row.response_id)
    if has_lease(row.lease_until, lease_s):
        raise key_in_use()
    tx.execute(update(idempotency).where(_matches(tx, key)).values(lease_owner=owner, lease_until=until))
    return KeyClaim("resumed", None, row.response_id)


def renew_claim(tx: StoreTransaction, key: IdempotencyKey, *, owner: str, lease_s: float = LEASE_S) -> bool:
    """Renew the lease of a claim; False if another process has taken it over."""
    until = timestamp_text(now() + timedelta(seconds=lease_s))
    own = and_(_matches(tx, key), idempotency.c.lease_owner == owner, idempotency.c.status.is_(None))
    return tx.execute(update(idempotency).where(own).values(lease_until=until)) == 1


def bind_response(tx: StoreTransaction, key: IdempotencyKey, response_id: str) -> None:
    """Store which response was started, so that another process can resume it."""
    tx.execute(update(idempotency).where(_matches(tx, key)).values(response_id=response_id))


def store_answer(
    tx: StoreTransaction, key: IdempotencyKey, answer: EncodedResponse, subjects: frozenset[str]
) -> None:
    """Store the answer, in the transaction of its effect."""
    sealed = tx.sealer.seal(TABLE, key.row_id, tx.lock_generation(), answer.body)
    values = {"status": answer.status, "lease_owner": None, "lease_until": None, **sealed._asdict()}
    tx.execute(update(idempotency).where(_matches(tx, key)).values(values))
    rows = [
        {"project_id": tx.project_id, "path": key.path, "key_digest": key.key_digest, "subject_id": subject}
        for subject in sorted(subjects)
    ]
    if rows:
        tx.execute(insert(idempotency_subjects), rows)


def release_key(tx: StoreTransaction, key: IdempotencyKey) -> None:
    """Delete the claim of a call that was refused and wrote nothing."""
    tx.execute(delete(idempotency).where(_matches(tx, key), idempotency.c.status.is_(None)))


def delete_expired_answers(tx: StoreTransaction) -> int:
    """Delete expired answers of every project; returns how many."""
    return tx.execute(delete(idempotency).where(idempotency.c.created_at < days_ago(KEPT_DAYS)))


def collect_subjects(ids: tuple[str, ...], answer: Any) -> frozenset[str]:  # noqa: ANN401 (any answer)
    """The ids that an answer is about: those of the path, and those in fields that callers do not write."""
    subjects = {object_id for object_id in ids if _ID.match(object_id)}
    _collect(msgspec.to_builtins(answer), subjects)
    return frozenset(subjects)


def _collect(value: Any, subjects: set[str]) -> None:  # noqa: ANN401
    if isinstance(value, str):
        if _ID.match(value):
            subjects.add(value)
    elif isinstance(value, dict):
        for name, member in value.items():
            if name not in _NOT_SUBJECTS:
                _collect(member, subjects)
    elif isinstance(value, list):
        for member in value:
            _collect(member, subjects)


def key_in_use() -> StoreRefused:
    """The error for a key whose call is in flight."""
    return StoreRefused(
        "a call with this idempotency key is in flight", reason="idempotency_in_flight", status=409,
        param="Idempotency-Key", hint="Wait, and send it again.",
    )  # fmt: skip


def _matches(tx: StoreTransaction, key: IdempotencyKey) -> Any:  # noqa: ANN401 (a condition)
    columns = idempotency.c
    return and_(columns.project_id == tx.project_id, columns.path == key.path, columns.key_digest == key.key_digest)
