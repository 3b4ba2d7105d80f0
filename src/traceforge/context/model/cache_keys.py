"""What a compiled input is called on the way to an engine: two keys over a snapshot, one within the other.

In: a snapshot, what serialises it, and what computes it. Out: the materialization key (which tokens) and the
compatibility key (whose computed keys and values may be used for them). Never: one of them in place of the other, or
in place of the snapshot's id; a field without a tag, a length and an explicit null.

    materialization key    traceforge.materialization.v2    snapshot_id, prompt_compiler_revision, tokenizer_revision,
                           chat_template_revision, tool_serialization_revision,
                           response_schema_serialization_revision, renderer_revision, ordered_block_manifest_digest
    compatibility key      traceforge.kv.v1    materialization_key, model_revision, quantization, engine,
                           engine_version, parallel_topology, kv_dtype, kv_block_size, isolation_namespace,
                           purge_generation
"""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct

from traceforge.canon import JSON, Digest, digest_fields, number_text, parse_json
from traceforge.conversion import convert
from traceforge.errors import StoreRefused
from traceforge.shape import WholeNumber, find_problems

MATERIALIZATION_DOMAIN = "traceforge.materialization.v2"
KV_DOMAIN = "traceforge.kv.v1"

_BlockSize = Annotated[float, Meta(ge=1, multiple_of=1)]


class Runtime(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The software that turns blocks into tokens and computes on them. None is a value of its own: not known."""

    tokenizer_revision: str | None = None
    chat_template_revision: str | None = None
    tool_serialization_revision: str | None = None
    response_schema_serialization_revision: str | None = None
    renderer_revision: str | None = None
    model_revision: str | None = None
    quantization: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    parallel_topology: str | None = None
    kv_dtype: str | None = None
    kv_block_size: _BlockSize | None = None
    isolation_namespace: str | None = None
    purge_generation: WholeNumber | None = None

    def for_project(self, project_id: str, generation: int) -> Runtime:
        """This runtime within a project: with its id where no namespace was named, and its generation.

        Raises:
            StoreRefused: another generation was named; a cache of that generation must not be used again.
        """
        if self.purge_generation not in (None, generation):
            raise StoreRefused(
                f"the runtime has purge_generation {number_text(self.purge_generation)}, "
                f"but the project has {generation}",
                reason="stale_purge_generation",
                param="purge_generation",
                hint="Leave purge_generation out: it is taken from the project.",
            )
        namespace = project_id if self.isolation_namespace is None else self.isolation_namespace
        return msgspec.structs.replace(self, isolation_namespace=namespace, purge_generation=generation)


def read_runtime(data: bytes) -> Runtime:
    """Read a runtime from JSON; a field that is absent is null.

    Raises:
        NotJSON: it is not JSON.
        StoreRefused: it is not a runtime; the message names every unknown or invalid field.
    """
    value = parse_json(data)
    shape_problems = find_problems(value, Runtime)
    if shape_problems:
        listed = "; ".join(f"{problem.path}: {problem.message}" for problem in shape_problems)
        raise StoreRefused(
            f"not a runtime: {listed}",
            reason="invalid_runtime",
            param=shape_problems[0].path.removeprefix("$.") if shape_problems[0].path != "$" else None,
            hint=f"The fields are {', '.join(Runtime.__struct_fields__)}.",
        )
    return convert(value, Runtime)


class PinnedInput(Protocol):
    """What the keys need of a snapshot; the stored object and the file format both have it."""

    @property
    def id(self) -> str:
        """The id of the snapshot."""
        ...

    @property
    def prompt_compiler_revision(self) -> str:
        """The revision that ordered its blocks."""
        ...

    @property
    def ordered_block_manifest_digest(self) -> str:
        """The digest of its blocks, in that order."""
        ...


def materialization_key(snapshot: PinnedInput, runtime: Runtime) -> Digest:
    """Identifies the tokens of a snapshot: the snapshot, and everything that serializes it."""
    return digest_fields(
        MATERIALIZATION_DOMAIN,
        [
            ("snapshot_id", snapshot.id),
            ("prompt_compiler_revision", snapshot.prompt_compiler_revision),
            ("tokenizer_revision", runtime.tokenizer_revision),
            ("chat_template_revision", runtime.chat_template_revision),
            ("tool_serialization_revision", runtime.tool_serialization_revision),
            ("response_schema_serialization_revision", runtime.response_schema_serialization_revision),
            ("renderer_revision", runtime.renderer_revision),
            ("ordered_block_manifest_digest", snapshot.ordered_block_manifest_digest),
        ],
    )


def kv_compatibility_key(materialization: str, runtime: Runtime) -> Digest:
    """Identifies a KV cache that can be reused for these tokens; `runtime` is that of `Runtime.for_project`."""
    return digest_fields(
        KV_DOMAIN,
        [
            ("materialization_key", materialization),
            ("model_revision", runtime.model_revision),
            ("quantization", runtime.quantization),
            ("engine", runtime.engine),
            ("engine_version", runtime.engine_version),
            ("parallel_topology", runtime.parallel_topology),
            ("kv_dtype", runtime.kv_dtype),
            ("kv_block_size", _optional_number_text(runtime.kv_block_size)),
            ("isolation_namespace", runtime.isolation_namespace),
            ("purge_generation", _optional_number_text(runtime.purge_generation)),
        ],
    )


def _optional_number_text(value: JSON) -> str | None:
    return number_text(value) if isinstance(value, int | float) else None
