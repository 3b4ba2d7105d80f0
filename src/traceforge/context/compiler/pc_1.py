"""Compiler revision pc_1: everything stands where it happened.

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
    """Its state is the number of blocks and the name of the prefix that they are."""

    revision = "pc_1"

    def order(self, sources: Sequence[BlockSource]) -> list[BlockSource]:
        """As they come."""
        return list(sources)

    def start(self) -> CompilerState:
        """The state before the first block."""
        return write_state(self.revision, 0, None)

    def fold(self, state: CompilerState, new: Iterable[BlockSource]) -> CompilerState:
        """The state when these blocks have come too."""
        count, prefix, _ = read_state(self.revision, state)
        added = list(new)
        return write_state(self.revision, count + len(added), fold_prefix(prefix, added))

    def finish(self, state: CompilerState) -> Digest:
        """The manifest digest of all that was folded."""
        _, prefix, _ = read_state(self.revision, state)
        return Digest(prefix or EMPTY)

    def arrange(self, state: CompilerState, things: Sequence[T]) -> list[T]:
        """Things that stand for the blocks, from causal order into that of the manifest."""
        count, _, _ = read_state(self.revision, state)
        assert count == len(things), f"a state of {count} blocks and {len(things)} things"
        return list(things)
