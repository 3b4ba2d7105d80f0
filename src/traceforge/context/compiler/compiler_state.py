"""How far a compiler has come, as a text that can be kept.

    ["pc_1", <blocks folded>, <name of their prefix, or null>, [<block behind>, …]]
    <block behind> = [<causal place>, <block id>, <role>, <kind>, <content digest>]

The last array holds the blocks that a revision puts behind whatever comes next. In canonical JSON. Never: content.
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

_Behind = list[tuple[int, str, str, str, str]]
_Fields = tuple[str, int, str | None, _Behind]


def write_state(
    revision: str, count: int, prefix: str | None, behind: Sequence[tuple[int, BlockSource]] = ()
) -> CompilerState:
    """The text of a state."""
    value = [revision, count, prefix, [[place, *source] for place, source in behind]]
    return CompilerState(canonical_bytes(cast("JSON", value)).decode())


def read_state(revision: str, state: CompilerState) -> tuple[int, str | None, list[tuple[int, BlockSource]]]:
    """The number of blocks, the name of their prefix, and those that stand behind.

    Raises:
        StoreUnavailable: the text is no state of this revision.
    """
    try:
        written_by, count, prefix, behind = decode_json(state, _Fields)
    except msgspec.MsgspecError:
        written_by, count, prefix, behind = "", 0, None, []
    if written_by != revision:
        raise StoreUnavailable(
            f"what was kept of an earlier compilation is no state of {revision}",
            hint="Run `traceforge context verify`: it compiles every snapshot from the beginning.",
        )
    return count, prefix, [(place, BlockSource(*source)) for place, *source in behind]
