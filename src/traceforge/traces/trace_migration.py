"""Migrate traces of older versions to this one.

A step goes from one version to the next and stays registered for ever: a trace of the first version must still open
with the last. A newer minor version is read as it is, because minor versions only add fields and unknown fields are
kept. A newer major version is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.errors import InvalidFile
from traceforge.findings import Finding, printable_name
from traceforge.traces.trace_format import SCHEMA_VERSION, VERSION_RULE

UNVERSIONED = "0.0.0"  # the version of traces that were written before traces had one
STEPS_MAX = 100  # More steps than there can be versions: a cycle.

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})\Z")

Step = Callable[[JSONObject], JSONObject]


class MigrationResult(NamedTuple):
    """The old version of a trace, the new one, and the versions of each step."""

    original_version: str
    new_version: str
    steps: tuple[str, ...]


class _MigrationStep(NamedTuple):
    to: str
    step: Step


_registry: dict[str, _MigrationStep] = {}


def migration_step(since: str, to: str) -> Callable[[Step], Step]:
    """Register a step from one version to a later one. It gets a copy and returns the upgraded trace."""

    def register(step: Step) -> Step:
        assert since not in _registry, f"there is a step from {since} already"
        assert _version_parts(since) < _version_parts(to), "a step goes forward"
        _registry[since] = _MigrationStep(to, step)
        return step

    return register


def trace_version(trace: JSON) -> str:
    """The version of a trace; `0.0.0` where it has none."""
    version = trace.get("schema_version", UNVERSIONED) if isinstance(trace, dict) else UNVERSIONED
    return version if isinstance(version, str) else ""


def needs_migration(trace: JSON) -> bool:
    """Whether a trace is of an older version."""
    match = _VERSION.match(trace_version(trace))
    return match is not None and _version_parts(match[0]) < _version_parts(SCHEMA_VERSION)


def migrate_trace(trace: JSONObject) -> tuple[JSONObject, MigrationResult]:
    """Upgrade a trace, step by step; one of this version is returned as it is.

    Raises:
        InvalidFile: its major version is newer, its version is invalid, or cannot be migrated.
    """
    original = version = trace_version(trace)
    if not _VERSION.match(original):
        raise _version_error(f"schema_version {printable_name(original)} is not a version", "Record the call again.")
    if _version_parts(original)[0] > _version_parts(SCHEMA_VERSION)[0]:
        raise _version_error(
            f"trace version {printable_name(original)} is newer than {SCHEMA_VERSION}", "Upgrade TraceForge."
        )
    steps: list[str] = []
    upgraded = dict(trace)
    while _version_parts(version) < _version_parts(SCHEMA_VERSION):
        registered = _registry.get(version)
        if registered is None or len(steps) > STEPS_MAX:
            raise _version_error(
                f"trace version {printable_name(version)} cannot be migrated to {SCHEMA_VERSION}", "Record it again."
            )
        upgraded = {**registered.step(dict(upgraded)), "schema_version": registered.to}
        version = registered.to
        steps.append(version)
    return upgraded, MigrationResult(original, version, tuple(steps))


def _version_parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _version_error(message: str, hint: str) -> InvalidFile:
    return InvalidFile((Finding("", "$.schema_version", VERSION_RULE, message, hint),))


@migration_step(UNVERSIONED, "1.0.0")
def _add_version(trace: JSONObject) -> JSONObject:
    """The first traces had every field except the version."""
    return trace
