"""The version of a trace, and the migration of older ones to this one.

    if needs_migration(trace):
        upgraded, result = migrate_trace(trace)

A step goes from one version to the next and stays registered for ever: a trace of the first version must still open
with the last. A newer minor version is read as it is, because minor versions only add fields and unknown fields are
kept. A newer major version is refused, and so is a version from which no step leads here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from traceforge.canon import JSON, JSONObject
from traceforge.errors import InvalidFile, UnknownVersion
from traceforge.findings import Finding, printable_name

SCHEMA_VERSION = "1.0.0"
VERSION_RULE = "TR2"

MIGRATE_HINT = "Rewrite it: traceforge trace migrate. A file outside of the project: traceforge trace migrate FILE"
UPGRADE_HINT = "Upgrade TraceForge."
UNKNOWN_HINT = "No TraceForge wrote this version: record the call again, and delete this file."
UNVERSIONED = "0.0.0"  # the version of traces that were written before traces had one
STEPS_MAX = 100  # More steps than there can be versions: a cycle.

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})\Z")

Step = Callable[[JSONObject], JSONObject]


class MigrationResult(NamedTuple):
    """The old version of a trace, the new one, and the versions of each step."""

    original_version: str
    new_version: str
    steps: tuple[str, ...]


class _MigrationStep(Struct, frozen=True):
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
        UnknownVersion: its version is none, or no step leads from there to this one.
        InvalidFile: its major version is newer.
    """
    original = version = trace_version(trace)
    finding = find_version_problem(trace)
    if finding is not None and finding.hint == UNKNOWN_HINT:
        raise UnknownVersion((finding,))
    if finding is not None and finding.hint == UPGRADE_HINT:
        raise InvalidFile((finding,))
    steps: list[str] = []
    upgraded = dict(trace)
    while _version_parts(version) < _version_parts(SCHEMA_VERSION):
        registered = _registry[version]
        upgraded = {**registered.step(dict(upgraded)), "schema_version": registered.to}
        version = registered.to
        steps.append(version)
    return upgraded, MigrationResult(original, version, tuple(steps))


def find_version_problem(trace: JSON, file: str = "") -> Finding | None:
    """The finding for a trace that is not of this version, nor of a newer minor one; its hint is what repairs it."""
    version = trace_version(trace)
    if version == SCHEMA_VERSION:
        return None
    name = printable_name(version)
    if not _VERSION.match(version):
        return _version_finding(file, f"trace version {name} is unknown: it is not a version", UNKNOWN_HINT)
    parts, current = _version_parts(version), _version_parts(SCHEMA_VERSION)
    if parts[0] > current[0]:
        return _version_finding(file, f"trace version {name} is newer than {SCHEMA_VERSION}", UPGRADE_HINT)
    if parts >= current:
        return None
    if not _leads_here(version):
        message = f"trace version {name} is unknown, so it cannot be migrated to {SCHEMA_VERSION}"
        return _version_finding(file, message, UNKNOWN_HINT)
    is_stated = isinstance(trace, dict) and "schema_version" in trace
    message = f"trace version {name} is older than {SCHEMA_VERSION}" if is_stated else "the trace has no version"
    return _version_finding(file, message, MIGRATE_HINT)


def _leads_here(version: str) -> bool:
    """Whether there are steps from a version to this one."""
    for _ in range(STEPS_MAX):
        if version not in _registry:
            break
        version = _registry[version].to
    return version == SCHEMA_VERSION


def _version_parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _version_finding(file: str, message: str, hint: str) -> Finding:
    return Finding(file, "$.schema_version", VERSION_RULE, message, hint)


@migration_step(UNVERSIONED, "1.0.0")
def _add_version(trace: JSONObject) -> JSONObject:
    """The first traces had every field except the version."""
    return trace
