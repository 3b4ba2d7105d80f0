"""Traces of older versions become traces of this one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.exchanges import parse_object, plain_trace
from traceforge.canon import JSONObject
from traceforge.errors import InvalidFile
from traceforge.traces import trace_migration
from traceforge.traces.trace_format import read_trace, write_trace
from traceforge.traces.trace_migration import (
    SCHEMA_VERSION,
    MigrationResult,
    migrate_trace,
    migration_step,
    needs_migration,
    trace_version,
)

TRACE = parse_object(plain_trace(1).trace)
UNVERSIONED = {name: value for name, value in TRACE.items() if name != "schema_version"}


@pytest.fixture
def steps() -> Iterator[None]:
    """Steps that a test registers are gone afterwards."""
    before = dict(trace_migration._registry)
    yield
    trace_migration._registry.clear()
    trace_migration._registry.update(before)


def test_a_trace_without_a_version_gets_one() -> None:
    """And nothing else changes."""
    upgraded, result = migrate_trace(UNVERSIONED)

    assert (TRACE, MigrationResult("0.0.0", "1.0.0", ("1.0.0",))) == (upgraded, result)
    assert TRACE == read_trace(write_trace(upgraded)).body
    assert "schema_version" not in UNVERSIONED


def test_a_trace_of_this_version_is_returned_as_it_is() -> None:
    """Also one of a newer minor version."""
    for version in (SCHEMA_VERSION, "1.0.9", "1.5.0"):
        trace = {**TRACE, "schema_version": version}

        assert not needs_migration(trace)
        assert (trace, MigrationResult(version, version, ())) == migrate_trace(trace)


@pytest.mark.parametrize("version", ["2.0.0", "999999.0.0"])
def test_a_newer_major_version_is_refused(version: str) -> None:
    """Its meaning is unknown here."""
    with pytest.raises(InvalidFile, match="newer"):
        migrate_trace({**TRACE, "schema_version": version})


@pytest.mark.parametrize("version", ["", "1", "1.0", "v1.0.0", "1.0.0\n", "1.0.0.0", None, 1, [], "9" * 99 + ".0.0"])
def test_an_invalid_version_is_refused(version: object) -> None:
    """It is neither old nor new."""
    trace: JSONObject = {**TRACE, "schema_version": version}  # type: ignore[dict-item]

    assert not needs_migration(trace)
    with pytest.raises(InvalidFile):
        migrate_trace(trace)


@pytest.mark.parametrize("value", [None, [], "x", 7])
def test_a_value_that_is_not_an_object_has_no_version(value: object) -> None:
    assert "0.0.0" == trace_version(value)  # type: ignore[arg-type]


@pytest.mark.usefixtures("steps")
def test_steps_follow_one_another() -> None:
    """Each gets what the one before made, and a copy."""
    migrated = []

    @migration_step("0.1.0", "0.4.0")
    def _first(trace: JSONObject) -> JSONObject:
        migrated.append(trace.pop("old"))
        return {**trace, "between": 1}

    @migration_step("0.4.0", "1.0.0")
    def _second(trace: JSONObject) -> JSONObject:
        migrated.append((trace["schema_version"], trace.pop("between")))
        return trace

    trace = {**TRACE, "schema_version": "0.1.0", "old": "x"}

    upgraded, result = migrate_trace(trace)

    assert (["x", ("0.4.0", 1)], TRACE) == (migrated, upgraded)
    assert MigrationResult("0.1.0", "1.0.0", ("0.4.0", "1.0.0")) == result
    assert "x" == trace["old"]


@pytest.mark.usefixtures("steps")
def test_a_missing_step_is_reported() -> None:
    """No step leads on from there."""
    migration_step("0.1.0", "0.4.0")(lambda trace: trace)

    for version in ("0.1.0", "0.2.0"):
        with pytest.raises(InvalidFile, match="cannot be migrated"):
            migrate_trace({**TRACE, "schema_version": version})


@pytest.mark.usefixtures("steps")
def test_a_cycle_of_steps_cannot_be_registered() -> None:
    """A step goes forward, and there is one from each version."""
    migration_step("0.1.0", "0.4.0")(lambda trace: trace)
    for since, to in (("0.4.0", "0.1.0"), ("0.4.0", "0.4.0"), ("0.1.0", "0.5.0")):
        with pytest.raises(AssertionError):
            migration_step(since, to)(lambda trace: trace)


@pytest.mark.usefixtures("steps")
def test_an_existing_cycle_is_reported() -> None:
    """It ends, and says so."""
    trace_migration._registry["0.1.0"] = trace_migration._MigrationStep("0.2.0", lambda trace: trace)
    trace_migration._registry["0.2.0"] = trace_migration._MigrationStep("0.1.0", lambda trace: trace)

    with pytest.raises(InvalidFile, match="cannot be migrated"):
        migrate_trace({**TRACE, "schema_version": "0.1.0"})
