"""Projects and their API keys.

In: names and scopes. Out: a project; an API key, once. Never: stores an API key: it stores its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from typing import cast

from sqlalchemy import ColumnElement, Connection, insert, select, update

from traceforge.clock import now_text
from traceforge.context.model.inputs import NewApiKey, NewProject, Scope
from traceforge.context.model.objects import ApiKey, Deleted, Project
from traceforge.context.storage.dialect_statements import lock_for_transaction
from traceforge.context.storage.insert_locks import API_KEY_LIST, PROJECT_LIST, lock_inserts
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.paging import Page, check_limit, unknown_cursor
from traceforge.context.storage.sealing import Sealer
from traceforge.context.storage.store_transaction import (
    AnyRow,
    StoreTransaction,
    check_text,
    is_id,
    lock_generation,
    not_found,
)
from traceforge.context.storage.tables import api_keys, projects
from traceforge.ids import new_id

KEY_PREFIX = "tf_live_"
API_KEY_BYTES = 32
_KEY_TABLE = "api_keys"  # In seals.
_DERIVED = b"traceforge.api-key.v1\0"
DEFAULT_NAME = "default"
FIRST_GENERATION = 1
_LOCK = 7_236_531_403  # Any number, the same everywhere: one process at a time makes the default project.


def create_project(connection: Connection, keyring: Keyring, body: NewProject) -> Project:
    """Make a project. Its encryption key is in the keyring before the project is in the database."""
    row = {
        "id": new_id("prj"),
        "name": check_text(body.name, "name"),
        "generation": FIRST_GENERATION,
        "created_at": now_text(),
    }
    keyring.add_key(str(row["id"]), FIRST_GENERATION)
    lock_inserts(connection, PROJECT_LIST)
    connection.execute(insert(projects), row)
    return load_project(connection, str(row["id"]))


def ensure_default_project(connection: Connection, keyring: Keyring) -> Project:
    """The oldest project; creates one if the store is empty."""
    lock_for_transaction(connection, _LOCK)
    first = find_oldest_project(connection)
    return first or create_project(connection, keyring, NewProject(name=DEFAULT_NAME))


def find_oldest_project(connection: Connection) -> Project | None:
    row = connection.execute(select(projects).order_by(projects.c.seq).limit(1)).one_or_none()
    return None if row is None else _project(row)


def load_project(connection: Connection, project_id: str, param: str | None = None) -> Project:
    """A project by its id.

    Raises:
        StoreRefused: the project does not exist.
    """
    row = None
    if is_id(project_id):
        row = connection.execute(select(projects).where(projects.c.id == project_id)).one_or_none()
    if row is None:
        raise not_found("project", project_id, param)
    return _project(row)


def get_project(tx: StoreTransaction) -> Project:
    """The project of a transaction."""
    return load_project(tx.connection, tx.project_id)


def list_projects(connection: Connection, limit: int, after: str | None) -> Page[Project]:
    check_limit(limit)
    statement = select(projects).order_by(projects.c.seq).limit(limit + 1)
    if after is not None:
        last = (
            connection.execute(select(projects.c.seq).where(projects.c.id == after)).one_or_none()
            if is_id(after)
            else None
        )
        if last is None:
            raise unknown_cursor(after)
        statement = statement.where(projects.c.seq > last.seq)
    rows = connection.execute(statement).all()
    return Page(data=[_project(row) for row in rows[:limit]], has_more=len(rows) > limit)


def new_api_key(salt: bytes = b"", text: str = "") -> str:
    """A random API key, or the one that is derived from a secret salt and a text."""
    key_bytes = hmac.digest(salt, _DERIVED + text.encode(), "sha256") if salt else secrets.token_bytes(API_KEY_BYTES)
    return KEY_PREFIX + urlsafe_b64encode(key_bytes).decode().rstrip("=")


def create_api_key(
    connection: Connection, keyring: Keyring, project_id: str, body: NewApiKey, key: str | None = None
) -> ApiKey:
    """Make an API key, or store the given one. Only the returned object shows it."""
    generation = lock_generation(connection, project_id, "project_id")
    key, key_id = key or new_api_key(), new_id("key")
    scopes: list[Scope] = [scope for scope in ("read", "write", "admin") if scope in body.scopes]
    label = check_text(body.label, "label")
    row = {
        "id": key_id,
        "project_id": project_id,
        "hash": _hash(key),
        "scopes": " ".join(scopes),
        "created_at": now_text(),
        **Sealer(keyring, project_id).seal_text(_KEY_TABLE, key_id, generation, label),
    }
    lock_inserts(connection, API_KEY_LIST)
    connection.execute(insert(api_keys), row)
    return ApiKey(
        id=key_id,
        project_id=project_id,
        scopes=scopes,
        label=body.label,
        created_at=str(row["created_at"]),
        key=key,
    )


def list_api_keys(
    connection: Connection, keyring: Keyring, project_id: str | None, limit: int, after: str | None
) -> Page[ApiKey]:
    """The API keys of one project, or of all; without the keys themselves."""
    check_limit(limit)
    own = select(api_keys).where(*_keys_of(project_id))
    statement = own.where(api_keys.c.deleted_at.is_(None)).order_by(api_keys.c.seq).limit(limit + 1)
    if after is not None:
        last = connection.execute(own.where(api_keys.c.id == after)).one_or_none() if is_id(after) else None
        if last is None:
            raise unknown_cursor(after)
        statement = statement.where(api_keys.c.seq > last.seq)
    rows = connection.execute(statement).all()
    keys = [_api_key(row, Sealer(keyring, row.project_id).open_text(_KEY_TABLE, row)) for row in rows[:limit]]
    return Page(data=keys, has_more=len(rows) > limit)


def delete_api_key(connection: Connection, project_id: str | None, key_id: str) -> Deleted:
    """Revoke an API key of one project, or of any.

    Raises:
        StoreRefused: the API key does not exist.
    """
    own = (api_keys.c.id == key_id, *_keys_of(project_id), api_keys.c.deleted_at.is_(None))
    changed = 0
    if is_id(key_id):
        changed = connection.execute(update(api_keys).where(*own).values(deleted_at=now_text())).rowcount
    if not changed:
        raise not_found("API key", key_id)
    return Deleted(id=key_id)


def _keys_of(project_id: str | None) -> list[ColumnElement[bool]]:
    return [] if project_id is None else [api_keys.c.project_id == project_id]


def find_api_key(connection: Connection, key: str) -> ApiKey | None:
    """The stored object of an API key, without its label; None where it is unknown or revoked."""
    if not key.startswith(KEY_PREFIX) or not key.isascii():
        return None
    row = connection.execute(
        select(api_keys).where(api_keys.c.hash == _hash(key), api_keys.c.deleted_at.is_(None))
    ).one_or_none()
    return None if row is None else _api_key(row)


def _hash(key: str) -> str:
    """A plain hash is enough: a key has 256 random bits, which no dictionary holds."""
    return hashlib.sha256(key.encode()).hexdigest()


def _project(row: AnyRow) -> Project:
    return Project(id=row.id, name=row.name, generation=row.generation, created_at=row.created_at)


def _api_key(row: AnyRow, label: str = "") -> ApiKey:
    return ApiKey(
        id=row.id,
        project_id=row.project_id,
        scopes=cast("list[Scope]", row.scopes.split()),
        label=label,
        created_at=row.created_at,
    )
