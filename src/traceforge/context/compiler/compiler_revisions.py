"""The revisions of the compiler, by name.

In: a revision and sources in causal order. Out: the manifest. Never: another revision than the one asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from traceforge.canon import Digest
from traceforge.context.compiler.block_manifest import EMPTY, prefix_digests
from traceforge.context.compiler.compiler_state import CompilerState
from traceforge.context.compiler.pc_1 import PC1
from traceforge.context.compiler.pc_2 import PC2
from traceforge.context.model.block_source import BlockSource
from traceforge.context.model.revisions import select_revision

T = TypeVar("T")


class Compiler(Protocol):
    """One revision: an order of blocks, and the same order computed incrementally.

    For all sources a and b: `finish(fold(fold(start(), a), b))` is the manifest digest of `order(a + b)`.
    """

    revision: str

    def order(self, sources: Sequence[BlockSource]) -> list[BlockSource]:
        """From causal order into that of the manifest."""
        ...

    def start(self) -> CompilerState:
        """The state before the first block."""
        ...

    def fold(self, state: CompilerState, new: Iterable[BlockSource]) -> CompilerState:
        """The state after these further blocks."""
        ...

    def finish(self, state: CompilerState) -> Digest:
        """The manifest digest of all folded blocks."""
        ...

    def arrange(self, state: CompilerState, things: Sequence[T]) -> list[T]:
        """Items that correspond to the blocks, from causal order into that of the manifest."""
        ...


class CompiledManifest(NamedTuple):
    """A manifest: its blocks in order, the digest of each prefix, and its own."""

    revision: str
    blocks: list[BlockSource]
    prefixes: list[Digest]
    digest: Digest


_COMPILERS: tuple[Compiler, ...] = (PC1(), PC2())
REVISIONS = tuple(compiler.revision for compiler in _COMPILERS)
DEFAULT_REVISION = "pc_1"


def find_compiler(revision: str | None = None) -> Compiler:
    """The compiler of this revision, or of the default one.

    Raises:
        StoreRefused: this version of TraceForge does not have the revision.
    """
    name = DEFAULT_REVISION if revision is None else revision
    return select_revision(
        _COMPILERS, name, "compiler", reason="unknown_compiler_revision", param="prompt_compiler_revision"
    )


def compile_sources(sources: Sequence[BlockSource], revision: str | None = None) -> CompiledManifest:
    """Compile all sources at once; `sources` are the items of the base bundles, then the events, in causal order."""
    compiler = find_compiler(revision)
    blocks = compiler.order(sources)
    prefixes = prefix_digests(blocks)
    return CompiledManifest(compiler.revision, blocks, prefixes, prefixes[-1] if prefixes else EMPTY)
