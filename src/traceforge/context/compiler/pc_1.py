"""Compiler revision pc_1: blocks in causal order.

The items of the base bundles in their order, then the events in causal order. Released; never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from traceforge.canon import Digest
from traceforge.context.compiler.block_manifest import EMPTY, fold_prefix
from traceforge.context.compiler.compiler_state import CompilerState, read_state, write_state
from traceforge.context.model.block_source import BlockSource

T = TypeVar("T")


class PC1:
    """Its state is the number of blocks and the digest of their prefix."""

    revision = "pc_1"

    def order(self, sources: Sequence[BlockSource]) -> list[BlockSource]:
        """The order of the manifest is the causal order."""
        return list(sources)

    def start(self) -> CompilerState:
        """The state before the first block."""
        return write_state(self.revision, 0, None)

    def fold(self, state: CompilerState, new: Iterable[BlockSource]) -> CompilerState:
        """The state after these further blocks."""
        count, prefix, _ = read_state(self.revision, state)
        added = list(new)
        return write_state(self.revision, count + len(added), fold_prefix(prefix, added))

    def finish(self, state: CompilerState) -> Digest:
        """The manifest digest of all folded blocks."""
        _, prefix, _ = read_state(self.revision, state)
        return Digest(prefix or EMPTY)

    def arrange(self, state: CompilerState, things: Sequence[T]) -> list[T]:
        """Items that correspond to the blocks, from causal order into that of the manifest."""
        count, _, _ = read_state(self.revision, state)
        assert count == len(things), f"a state of {count} blocks and {len(things)} things"
        return list(things)
