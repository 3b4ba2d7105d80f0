"""The Model IO session, version 1.0.0: a recording for deterministic replay.

    {"model_io_schema_version", "adapter_id", "model_id", "mode", "interactions": [
        {"i", "prompt_hash", "response_hash", "response_content"}, …]}

These fields are the *core*; the ModelIOHash is the digest of its canonical text, with interactions sorted by `i`. All
other fields (times, tokens, statistics, unknown fields) are ephemeral: kept, but not hashed.

The rules are checked by `recording_verifier`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import JSON, Digest, JSONObject, canonical_bytes, digest_canonical
from traceforge.shape import DigestText, NonEmptyText, WholeNumber

SCHEMA_VERSION = "1.0.0"
VERSION_PATTERN = r"^[0-9]+\.[0-9]+\.[0-9]+$(?!\n)"
INTERACTIONS_MAX = 10_000
RESPONSE_BYTES_MAX = 1_000_000
TOTAL_BYTES_MAX = 100_000_000

CORE_FIELDS = ("model_io_schema_version", "adapter_id", "model_id", "mode")
INTERACTION_CORE_FIELDS = ("i", "prompt_hash", "response_hash", "response_content")


class Interaction(Struct):
    """One prompt and its response. Ephemeral fields may hold anything."""

    i: WholeNumber
    prompt_hash: DigestText
    response_hash: DigestText
    response_content: str
    tokens_input: Any | UnsetType = UNSET
    tokens_output: Any | UnsetType = UNSET
    latency_ms: Any | UnsetType = UNSET


class ModelIOSession(Struct):
    """A whole recording. Unknown fields are ignored."""

    model_io_schema_version: Annotated[str, Meta(pattern=VERSION_PATTERN, description="three numbers with dots")]
    adapter_id: NonEmptyText
    model_id: NonEmptyText
    mode: Literal["record", "replay"]
    interactions: Annotated[list[Interaction], Meta(max_length=INTERACTIONS_MAX)]
    created_at_utc: Any | UnsetType = UNSET
    ended_at_utc: Any | UnsetType = UNSET
    stats: Any | UnsetType = UNSET


def model_io_core(session: JSONObject) -> JSONObject:
    """The hashed part of a session. A missing field stays missing."""
    interactions = [
        {name: item[name] for name in INTERACTION_CORE_FIELDS if name in item} if isinstance(item, dict) else {}
        for item in cast("list[JSON]", session["interactions"])
    ]
    interactions.sort(key=lambda item: float(cast("float", item["i"])))
    core: JSONObject = {name: session[name] for name in CORE_FIELDS}
    core["interactions"] = cast("list[JSON]", interactions)
    return core


def model_io_hash(session: JSONObject) -> Digest:
    """The digest of the core's canonical text."""
    return digest_canonical(model_io_core(session))


def write_session(session: JSONObject) -> bytes:
    """The bytes of a session's file: canonical text and one LF."""
    return canonical_bytes(session) + b"\n"
