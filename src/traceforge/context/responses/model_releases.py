"""Model aliases and their releases: the models behind a name.

A release never changes; an alias points to its live release. Never: an address or an API key of a provider: those are
configured where the store runs (`model_calls`).

A target may be named directly, as `provider/model`. It has a release too, one for each target and project; its id is
derived from both, so that processes which name the same target at the same time use the same release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from sqlalchemy import insert, update

from traceforge.canon import JSON, canonical_bytes, digest_fields, is_deeper_than
from traceforge.clock import now_text
from traceforge.context.model.inputs import NewAlias, NewRelease
from traceforge.context.model.objects import Alias, Release, Target
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, check_text, is_id, not_found
from traceforge.context.storage.tables import aliases, releases
from traceforge.conversion import decode_json
from traceforge.errors import NotCanonical, StoreRefused
from traceforge.ids import ALPHABET, LENGTH, new_id

DIRECT_DOMAIN = "traceforge.release.v1"
PINNED_PARAMETERS = frozenset(
    {"model", "messages", "prompt", "input", "instructions", "system", "contents", "systemInstruction", "stream"}
)
_TABLE = "releases"  # In seals.
PROVIDERS = ("openai", "anthropic", "gemini", "ollama")


def create_alias(tx: StoreTransaction, body: NewAlias) -> Alias:
    """Create an alias with its first release.

    Raises:
        StoreRefused: the name is taken, or a target cannot be stored.
    """
    name = check_text(body.name, "name")
    if is_id(name):
        raise StoreRefused("`name` must not look like an id", reason="invalid_alias", param="name")
    if _find_alias(tx, name) is not None:
        raise _name_taken(name)
    release = _insert_release(tx, new_id("alr"), name, body.targets)
    row = {
        "project_id": tx.project_id,
        "name": name,
        "live_release_id": release.id,
        "created_at": release.created_at,
    }
    tx.lock_inserts()
    if not tx.insert_missing(aliases, [row]):
        raise _name_taken(name)
    return get_alias(tx, name)


def list_aliases(tx: StoreTransaction, limit: int, after: str | None) -> Page[Alias]:
    """The aliases of the project, oldest first; `after` is a name."""
    return list_page(
        tx, aliases, (), lambda rows: [_alias(row) for row in rows], limit=limit, after=after, cursor="name"
    )


def get_alias(tx: StoreTransaction, name: str) -> Alias:
    """An alias by its name."""
    return _alias(_load_alias(tx, name))


def create_release(tx: StoreTransaction, name: str, body: NewRelease) -> Release:
    """Create a release of an alias; it becomes the live one."""
    _load_alias(tx, name)
    release = _insert_release(tx, new_id("alr"), name, body.targets)
    tx.execute(
        update(aliases)
        .where(aliases.c.project_id == tx.project_id, aliases.c.name == name)
        .values(live_release_id=release.id)
    )
    return release


def get_release(tx: StoreTransaction, release_id: str) -> Release:
    """A release by its id."""
    return _release(tx, tx.load(releases, "release", release_id))


def resolve_release(tx: StoreTransaction, model: str, param: str = "model") -> Release:
    """The release that `model` names: the live one of an alias, one by its id, or that of `provider/model`.

    Raises:
        StoreRefused: the alias, release or provider does not exist.
    """
    if is_id(model):
        row = tx.find(releases, model)
        if row is None:
            raise not_found("release", model, param)
        return _release(tx, row)
    if "/" in model:
        return _direct_release(tx, model, param)
    row = _find_alias(tx, model)
    if row is None:
        raise StoreRefused(
            f"there is no alias {check_text(model, param)}",
            reason="not_found",
            status=404,
            param=param,
            hint="Create it (`traceforge context alias create`), or name a model as PROVIDER/MODEL: openai/gpt-4.1.",
        )
    return get_release(tx, row.live_release_id)


def check_params(params: Mapping[str, JSON], param: str = "params") -> None:
    """Check that parameters change only how the model answers; its input is pinned by the snapshot.

    Raises:
        StoreRefused: a parameter would change the input, or `n` is not 1.
    """
    pinned_names = sorted(PINNED_PARAMETERS & params.keys())
    if pinned_names:
        message = f"`{pinned_names[0]}` cannot be set here: the snapshot holds it"
        raise StoreRefused(message, reason="invalid_params", param=f"{param}.{pinned_names[0]}")
    count = params.get("n")
    if count not in (None, 1) or isinstance(count, bool):  # True equals 1 in Python; a provider refuses it.
        message = "`n` must be 1"
        raise StoreRefused(message, reason="invalid_params", param=f"{param}.n")


def _direct_release(tx: StoreTransaction, model: str, param: str) -> Release:
    provider, _, name = check_text(model, param).partition("/")
    if provider not in PROVIDERS or not 1 <= len(name) <= 256:
        message = f"a target is provider/model, and provider is one of {', '.join(PROVIDERS)}"
        raise StoreRefused(message, reason="unknown_provider", status=404, param=param)
    target = Target(provider=cast("Any", provider), model=name)
    return _insert_release(tx, _direct_id(tx.project_id, target), None, [target])


def _direct_id(project_id: str, target: Target) -> str:
    """An id derived from project and target, the same in every process."""
    digest = digest_fields(
        DIRECT_DOMAIN, [("project_id", project_id), ("provider", target.provider), ("model", target.model)]
    )
    number = int(digest.partition(":")[2], 16)
    return "alr_" + "".join(ALPHABET[number >> (5 * place) & 31] for place in range(LENGTH))


def _insert_release(tx: StoreTransaction, release_id: str, alias: str | None, targets: list[Target]) -> Release:
    for number, target in enumerate(targets):
        check_params(target.params, f"targets[{number}].params")
        check_text(target.model, f"targets[{number}].model")
        for name in ("revision", "tokenizer_revision", "chat_template_revision"):
            check_text(getattr(target, name) or "", f"targets[{number}].{name}")
    sealed = tx.sealer.seal(_TABLE, release_id, tx.lock_generation(), _exact_json(msgspec.to_builtins(targets)))
    row = {
        "id": release_id,
        "project_id": tx.project_id,
        "alias": alias,
        "created_at": now_text(),
        **sealed._asdict(),
    }
    tx.insert_missing(releases, [row]) if alias is None else tx.execute(insert(releases), [row])
    return get_release(tx, release_id)


def _exact_json(value: JSON) -> bytes:
    try:
        if is_deeper_than(value):
            raise NotCanonical("$.targets", "too many levels")
        return canonical_bytes(value)
    except NotCanonical as exc:
        message = f"a target cannot be stored: {exc.message}"
        raise StoreRefused(message, reason="invalid_target", param="targets") from None


def _find_alias(tx: StoreTransaction, name: str) -> AnyRow | None:
    if "\0" in name or not name.isascii():
        return None
    return tx.fetch_one(aliases.select().where(aliases.c.project_id == tx.project_id, aliases.c.name == name))


def _load_alias(tx: StoreTransaction, name: str) -> AnyRow:
    row = _find_alias(tx, name)
    if row is None:
        raise not_found("alias", name)
    return row


def _name_taken(name: str) -> StoreRefused:
    return StoreRefused(
        f"there is an alias {name} already",
        reason="alias_exists",
        status=409,
        param="name",
        hint="Give it a new release.",
    )


def _alias(row: AnyRow) -> Alias:
    return Alias(name=row.name, live_release_id=row.live_release_id, created_at=row.created_at)


def _release(tx: StoreTransaction, row: AnyRow) -> Release:
    sealed = SealedColumns(row.sealed, row.wrapped_key, row.generation)
    targets = decode_json(tx.sealer.open(_TABLE, row.id, sealed), list[Target])
    return Release(id=row.id, alias=row.alias, targets=targets, created_at=row.created_at)
