"""Recorded calls: their format, files, index and retention.

`migrate_trace` and `needs_migration` are the public interface for programs that read trace files themselves.
"""

from traceforge.traces.trace_migration import MigrationResult, migrate_trace, needs_migration

__all__ = ["MigrationResult", "migrate_trace", "needs_migration"]
