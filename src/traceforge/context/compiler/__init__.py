"""The prompt compiler: which blocks a model sees, in which order, and what that order is called. Pure.

A revision is code that never changes once it is released: a snapshot names the revision it was compiled by, and is
compiled again to the same digest for ever. Another order is another revision.
"""

from traceforge.context.compiler.manifest import EMPTY, MANIFEST_DOMAIN, manifest_digest, next_prefix, prefix_digests
from traceforge.context.compiler.registry import (
    DEFAULT_REVISION,
    REVISIONS,
    Compiled,
    Compiler,
    compile_sources,
    find_compiler,
)
from traceforge.context.compiler.source import Source, content_digest, event_role, event_source, kind_of
from traceforge.context.compiler.state import State

__all__ = [
    "DEFAULT_REVISION",
    "EMPTY",
    "MANIFEST_DOMAIN",
    "REVISIONS",
    "Compiled",
    "Compiler",
    "Source",
    "State",
    "compile_sources",
    "content_digest",
    "event_role",
    "event_source",
    "find_compiler",
    "kind_of",
    "manifest_digest",
    "next_prefix",
    "prefix_digests",
]
