"""Compiler revision pc_2: retrieval results after all other blocks.

The items of the base bundles in their order, then the events in causal order without the retrieval results, then
those, in causal order. Retrieval results change from turn to turn; after the history, they do not push the history
out of a provider's cache. Chunks in a base bundle stay where the bundle has them. Released; never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from traceforge.canon import Digest
from traceforge.context.compiler.block_manifest import EMPTY, fold_prefix
from traceforge.context.compiler.compiler_state import CompilerState, read_state, write_state
from traceforge.context.model.block_source import BlockSource

T = TypeVar("T")


class PC2:
    """Its state is that of the other blocks, and the retrieved blocks with their causal places."""

    revision = "pc_2"

    def order(self, sources: Sequence[BlockSource]) -> list[BlockSource]:
        """The other blocks in causal order, then the retrieved ones in causal order."""
        return sorted(sources, key=lambda source: source.is_retrieved)  # Sorting is stable.

    def start(self) -> CompilerState:
        """The state before the first block."""
        return write_state(self.revision, 0, None)

    def fold(self, state: CompilerState, new: Iterable[BlockSource]) -> CompilerState:
        """The state after these further blocks."""
        count, prefix, retrieved = read_state(self.revision, state)
        added = list(new)
        retrieved += [(count + at, source) for at, source in enumerate(added) if source.is_retrieved]
        prefix = fold_prefix(prefix, (source for source in added if not source.is_retrieved))
        return write_state(self.revision, count + len(added), prefix, retrieved)

    def finish(self, state: CompilerState) -> Digest:
        """The manifest digest of all folded blocks."""
        _, prefix, retrieved = read_state(self.revision, state)
        return Digest(fold_prefix(prefix, (source for _, source in retrieved)) or EMPTY)

    def arrange(self, state: CompilerState, things: Sequence[T]) -> list[T]:
        """Items that correspond to the blocks, from causal order into that of the manifest."""
        count, _, retrieved = read_state(self.revision, state)
        assert count == len(things), f"a state of {count} blocks and {len(things)} things"
        places = {place for place, _ in retrieved}
        others = [thing for place, thing in enumerate(things) if place not in places]
        return others + [things[place] for place, _ in retrieved]
