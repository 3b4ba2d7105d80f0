"""Artifacts: pieces of content that never change.

In: content. Out: an object with its digest; the content by its own call. Never: unsealed content in the database.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64

from msgspec import UNSET
from sqlalchemy import insert, or_, update

from traceforge.clock import now_text
from traceforge.context.history.artifact_expiry import expiry_time
from traceforge.context.model.content import pack, pack_metadata, unpack, unpack_metadata
from traceforge.context.model.inputs import NewArtifact
from traceforge.context.model.objects import Artifact, ArtifactContent, ArtifactType, Content, Deleted, RetentionClass
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.sealing import RowKey
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, check_text
from traceforge.context.storage.tables import artifacts
from traceforge.errors import StoreRefused
from traceforge.ids import new_id

_KIND = "artifact"
_METADATA = b"sealed_metadata"
_MEDIA_TYPE = b"sealed_media_type"


def create_artifact(tx: StoreTransaction, body: NewArtifact) -> Artifact:
    """Store a content.

    Raises:
        StoreRefused: neither or both of `content` and `content_base64`, or a content that cannot be stored.
    """
    content, media_type = _read_content(body)
    kind = ArtifactType(body.artifact_type)
    packed = pack(kind, content, "content")
    metadata = pack_metadata(body.metadata)
    artifact_id = new_id("art")
    row_key = tx.sealer.new_row_key("artifacts", artifact_id, tx.lock_generation())
    row = {
        "id": artifact_id,
        "project_id": tx.project_id,
        "artifact_type": kind.value,
        "kind": packed.kind,
        "content_digest": packed.digest,
        "size_bytes": len(packed.data),
        "retention_class": RetentionClass(body.retention_class).value,
        "expires_at": expiry_time(RetentionClass(body.retention_class)),
        "sealed": row_key.seal(packed.data),
        "sealed_metadata": row_key.seal(metadata, _METADATA),
        "sealed_media_type": row_key.seal(media_type.encode(), _MEDIA_TYPE),
        "wrapped_key": row_key.wrapped_key,
        "generation": row_key.generation,
        "created_at": now_text(),
    }
    tx.lock_inserts()
    tx.execute(insert(artifacts), [row])
    return get_artifact(tx, artifact_id)


def get_artifact(tx: StoreTransaction, artifact_id: str) -> Artifact:
    """An artifact, without its content."""
    return _artifact(tx, tx.load(artifacts, _KIND, artifact_id))


def get_artifact_content(tx: StoreTransaction, artifact_id: str) -> ArtifactContent:
    """The content of an artifact; bytes in base64."""
    row = tx.load(artifacts, _KIND, artifact_id)
    content, media_type = open_artifact(tx, row)
    if isinstance(content, bytes):
        encoded = b64encode(content).decode()
        return ArtifactContent(id=row.id, content_media_type=media_type, content_base64=encoded)
    return ArtifactContent(id=row.id, content_media_type=media_type, content=content)


def open_artifact(tx: StoreTransaction, row: AnyRow) -> tuple[Content | bytes, str]:
    """Decrypt the content of a row: a text, a JSON value or bytes; and its media type."""
    row_key = _row_key(tx, row)
    return unpack(row.kind, row_key.open(row.sealed)), row_key.open(row.sealed_media_type, _MEDIA_TYPE).decode()


def list_artifacts(tx: StoreTransaction, limit: int, after: str | None) -> Page[Artifact]:
    visible = (
        artifacts.c.deleted_at.is_(None),
        artifacts.c.purged_by.is_(None),
        or_(artifacts.c.expires_at.is_(None), artifacts.c.expires_at > now_text()),
    )
    return list_page(
        tx,
        artifacts,
        (),
        lambda rows: [_artifact(tx, row) for row in rows],
        limit=limit,
        after=after,
        visible=visible,
    )


def delete_artifact(tx: StoreTransaction, artifact_id: str) -> Deleted:
    """Hide it from lists and lookups. Bundles and events that use the artifact stay as they are."""
    tx.load(artifacts, _KIND, artifact_id)
    tx.execute(update(artifacts).where(artifacts.c.id == artifact_id).values(deleted_at=now_text()))
    return Deleted(id=artifact_id)


def _read_content(body: NewArtifact) -> tuple[Content | bytes, str]:
    if (body.content is UNSET) == (body.content_base64 is UNSET):
        raise StoreRefused("give either `content` or `content_base64`", reason="invalid_content", param="content")
    content: Content | bytes
    if body.content_base64 is not UNSET:
        try:
            content = b64decode(body.content_base64, validate=True)
        except (NotBase64, ValueError):
            raise StoreRefused(
                "content_base64 is not base64", reason="invalid_content", param="content_base64"
            ) from None
        default_type = "application/octet-stream"
    else:
        assert body.content is not UNSET
        content = body.content
        default_type = "text/plain; charset=utf-8" if isinstance(content, str) else "application/json"
    media_type = body.content_media_type
    return content, default_type if media_type is UNSET else check_text(media_type, "content_media_type")


def _row_key(tx: StoreTransaction, row: AnyRow) -> RowKey:
    return tx.sealer.load_row_key("artifacts", row.id, row.wrapped_key, row.generation)


def _artifact(tx: StoreTransaction, row: AnyRow) -> Artifact:
    row_key = _row_key(tx, row)
    return Artifact(
        id=row.id,
        artifact_type=ArtifactType(row.artifact_type),
        content_media_type=row_key.open(row.sealed_media_type, _MEDIA_TYPE).decode(),
        content_digest=row.content_digest,
        size_bytes=row.size_bytes,
        retention_class=RetentionClass(row.retention_class),
        expires_at=row.expires_at,
        metadata=unpack_metadata(row_key.open(row.sealed_metadata, _METADATA)),
        created_at=row.created_at,
    )
