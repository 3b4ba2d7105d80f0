"""The digests of ordered blocks.

In: blocks in the order of the prompt. Out: a digest of each prefix; that of all blocks is the manifest's. Never: an
id, a compiler's revision or a time in it: the same contents in the same order have the same digest everywhere.

The digest of the first k blocks is a composite digest over that of the first k - 1 (null for k = 1) and over the
role, the kind and the content digest of block k. So two manifests with the same first k blocks share k digests, and
one more block costs one hash. An empty manifest has the digest of the domain without a field.
"""

from __future__ import annotations

from collections.abc import Iterable

from traceforge.canon import Digest, digest_fields
from traceforge.context.model.block_source import BlockSource

MANIFEST_DOMAIN = "traceforge.context.manifest.v1"
EMPTY = digest_fields(MANIFEST_DOMAIN, [])


def next_prefix(before: str | None, block: BlockSource) -> Digest:
    """The digest of a prefix that is one block longer; `before` is None for the first block."""
    fields = [("prefix", before), ("role", block.role), ("kind", block.kind), ("content", block.content_digest)]
    return digest_fields(MANIFEST_DOMAIN, fields)


def fold_prefix(before: str | None, blocks: Iterable[BlockSource]) -> str | None:
    """The digest of a prefix that is longer by these blocks."""
    for block in blocks:
        before = next_prefix(before, block)
    return before


def prefix_digests(blocks: Iterable[BlockSource]) -> list[Digest]:
    """The digest of each prefix, the shortest first."""
    digests: list[Digest] = []
    for block in blocks:
        digests.append(next_prefix(digests[-1] if digests else None, block))
    return digests


def manifest_digest(blocks: Iterable[BlockSource]) -> Digest:
    """The digest of all blocks."""
    return Digest(fold_prefix(None, blocks) or EMPTY)
