"""The state of an incremental compilation, as a text that can be stored.

    ["pc_1", <blocks folded>, <digest of their prefix, or null>, [<late block>, …]]
    <late block> = [<causal place>, <block id>, <role>, <kind>, <content digest>]

The last array holds the blocks that a revision puts after all later ones. In canonical JSON. Never: content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NewType, cast

import msgspec

from traceforge.canon import JSON, canonical_bytes
from traceforge.context.model.block_source import BlockSource
from traceforge.conversion import decode_json
from traceforge.errors import StoreUnavailable

CompilerState = NewType("CompilerState", str)

_LateBlocks = list[tuple[int, str, str, str, str]]
_Fields = tuple[str, int, str | None, _LateBlocks]


def write_state(
    revision: str, count: int, prefix: str | None, late_blocks: Sequence[tuple[int, BlockSource]] = ()
) -> CompilerState:
    """The text of a state."""
    value = [revision, count, prefix, [[place, *source] for place, source in late_blocks]]
    return CompilerState(canonical_bytes(cast("JSON", value)).decode())


def read_state(revision: str, state: CompilerState) -> tuple[int, str | None, list[tuple[int, BlockSource]]]:
    """The number of blocks, the digest of their prefix, and the late blocks.

    Raises:
        StoreUnavailable: the text is not a state of this revision.
    """
    try:
        written_by, count, prefix, late_blocks = decode_json(state, _Fields)
    except msgspec.MsgspecError:
        written_by, count, prefix, late_blocks = "", 0, None, []
    if written_by != revision:
        raise StoreUnavailable(
            f"the stored state of an earlier compilation is not one of {revision}",
            hint="Restore the database from a backup, or compile with another revision (--compiler).",
        )
    return count, prefix, [(place, BlockSource(*source)) for place, *source in late_blocks]
