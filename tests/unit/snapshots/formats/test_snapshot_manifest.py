"""`formats/snapshot_manifest.py`: a pure function of the records, and every way in which one can be wrong."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.corpus import need_shared
from support.example_counts import scale_examples
from support.format_examples import DIGEST
from traceforge.canon import digest_text
from traceforge.clock import find_instant
from traceforge.snapshots.formats.snapshot_format import document_hash
from traceforge.snapshots.formats.snapshot_manifest import RecordEntry, check_manifest, write_manifest


def _entry(provider: str, name: str, timestamp: str = "2026-01-09T10:30:00Z", **changes: str) -> RecordEntry:
    entry = RecordEntry(provider, name, f"{provider}/{name}.json", digest_text(name), timestamp)
    return entry._replace(**changes)


ENTRIES = [
    _entry("anthropic", "xyz789abc123", "2026-01-09T14:30:00Z"),
    _entry("openai", "abc123def456", "2026-01-09T10:00:00Z"),
    _entry("openai", "def789ghi012", "2026-01-09T12:00:00Z"),
]


def _manifest() -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(write_manifest(ENTRIES))
    return manifest


def _sealed(manifest: dict[str, Any]) -> bytes:
    """Its text with the right hash over whatever entries it has."""
    manifest["hash"] = document_hash(manifest["version"], [entry["hash"] for entry in manifest["snapshots"]])
    return json.dumps(manifest).encode()


def _rules(data: bytes, entries: list[RecordEntry] = ENTRIES) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check_manifest(data, entries)]


# ---------------------------------------------------------------------------------------------
# Writing


def test_the_manifest_has_the_seeds_fields_in_the_seeds_order() -> None:
    """Top level and entries, as in the specification's example."""
    text = need_shared("seeds/000_a7c11da574936ae6.txt").read_text(encoding="utf-8")
    seed = json.loads(text.partition("### Manifest File\n\n```json\n")[2].partition("```")[0])
    manifest = _manifest()

    assert list(seed) == list(manifest)
    assert list(seed["snapshots"][0]) == list(manifest["snapshots"][0])


def test_the_manifest_of_three_records_is_this_text() -> None:
    """Two spaces, entries by provider and id, a final newline: the whole file, byte for byte."""
    hashes = [entry.hash for entry in ENTRIES]
    blocks = ",\n".join(
        f'    {{\n      "id": "{entry.id}",\n      "provider": "{entry.provider}",\n'
        f'      "file": "{entry.file}",\n      "hash": "{entry.hash}"\n    }}'
        for entry in ENTRIES
    )
    text = (
        '{\n  "version": "1.0.0",\n  "created_at": "2026-01-09T10:00:00Z",\n'
        f'  "updated_at": "2026-01-09T14:30:00Z",\n  "snapshots": [\n{blocks}\n  ],\n'
        f'  "hash": "{document_hash("1.0.0", hashes)}"\n}}\n'
    )

    assert text.encode() == write_manifest(ENTRIES)


def test_the_order_of_the_records_does_not_matter() -> None:
    """Every permutation gives the same bytes."""
    assert {write_manifest(ENTRIES)} == {write_manifest(list(order)) for order in permutations(ENTRIES)}


_times = st.builds(
    lambda second, fraction, zone: f"2026-01-09T10:30:{second:02d}{fraction}{zone}",
    st.integers(0, 59),
    st.sampled_from(["", ".5", ".50", ".499999999", ".000000001"]),
    st.sampled_from(["Z", "+00:00", "-00:01", "+01:00"]),
)
_entries = st.builds(
    _entry, st.sampled_from(["openai", "ollama", "a.b"]), st.text("abc-_9", min_size=3, max_size=5), _times
)


@settings(max_examples=scale_examples(200), deadline=None)
@given(st.lists(_entries, min_size=1, max_size=6, unique_by=lambda entry: entry.id), st.randoms())
def test_a_written_manifest_has_no_findings_whatever_the_order_of_its_records(
    entries: list[RecordEntry], chance: Any
) -> None:
    """Its times are instants among those of the records."""
    data = write_manifest(entries)
    chance.shuffle(entries)
    manifest = json.loads(data)
    instants = [find_instant(entry.timestamp) for entry in entries]

    assert [] == check_manifest(data, entries)
    assert data == write_manifest(entries)
    assert (min(instants), max(instants)) == (  # type: ignore[type-var]
        find_instant(manifest["created_at"]),
        find_instant(manifest["updated_at"]),
    )


def test_times_are_compared_as_instants_and_not_as_texts() -> None:
    """A zone makes a late text early, and a fraction counts."""
    entries = [
        _entry("openai", "aaa", "2026-01-09T11:59:59+02:00"),
        _entry("openai", "bbb", "2026-01-09T10:00:00.000000001Z"),
        _entry("openai", "ccc", "2026-01-09T10:00:00Z"),
    ]
    manifest = json.loads(write_manifest(entries))

    assert "2026-01-09T11:59:59+02:00" == manifest["created_at"]
    assert "2026-01-09T10:00:00.000000001Z" == manifest["updated_at"]


@pytest.mark.parametrize(
    "spelling", ["2026-01-09T12:00:00+02:00", "2026-01-09T10:00:00.000Z", "2026-01-09T04:30:00-05:30"]
)
def test_another_notation_of_the_same_instant_is_accepted(spelling: str) -> None:
    """For example in another time zone."""
    assert [] == _rules(_sealed(_manifest() | {"created_at": spelling}))


# ---------------------------------------------------------------------------------------------
# Checking, rule by rule


@pytest.mark.parametrize("value", ["null", "[]", "5", "{}"])
def test_a_manifest_of_another_shape_is_mf2(value: str) -> None:
    """Anything but an object with the five fields."""
    assert {"MF2"} == {rule for rule, _ in _rules(value.encode())}


@pytest.mark.parametrize("field", ["version", "created_at", "updated_at", "snapshots", "hash"])
def test_a_missing_field_is_mf2(field: str) -> None:
    """Each of the five."""
    manifest = _manifest()
    del manifest[field]

    assert [("MF2", f"$.{field}")] == _rules(json.dumps(manifest).encode())


@pytest.mark.parametrize("field", ["id", "provider", "file", "hash"])
@pytest.mark.parametrize("value", [None, 5, "", []])
def test_a_bad_field_of_an_entry_is_mf2(field: str, value: Any) -> None:
    """Each of an entry's four, with a value it cannot have."""
    manifest = _manifest()
    manifest["snapshots"][1][field] = value

    assert [("MF2", f"$.snapshots[1].{field}")] == _rules(json.dumps(manifest).encode())


def test_every_mf2_is_reported() -> None:
    """An unknown field at both levels and a bad time: three findings."""
    manifest = _manifest() | {"extra": 1, "created_at": "yesterday"}
    manifest["snapshots"][0]["extra"] = 1

    assert {("MF2", "$.created_at"), ("MF2", "$.snapshots[0].extra"), ("MF2", "$.extra")} == set(
        _rules(json.dumps(manifest).encode())
    )


def test_another_version_is_refused_as_for_documents() -> None:
    """SN2 and nothing else."""
    assert [("SN2", "$.version")] == _rules(json.dumps(_manifest() | {"version": "0.9.0", "hash": 5}).encode())


def test_an_entry_without_its_record_is_mf3() -> None:
    """The file was deleted and its entry was not."""
    assert [("MF3", "$.snapshots[0]")] == _rules(write_manifest(ENTRIES), ENTRIES[1:])[:1]
    assert {"MF3", "MF8"} == {rule for rule, _ in _rules(write_manifest(ENTRIES), ENTRIES[1:])}


def test_a_record_without_its_entry_is_mf4_for_each() -> None:
    """The finding names the file that is not listed."""
    manifest = _manifest()
    manifest["snapshots"] = manifest["snapshots"][:1]
    findings = check_manifest(_sealed(manifest), ENTRIES)

    assert [("MF4", "$.snapshots")] * 2 == [(finding.rule, finding.path) for finding in findings]
    assert ["openai/abc123def456.json", "openai/def789ghi012.json"] == [
        finding.message.partition(" ")[0] for finding in findings
    ]


@pytest.mark.parametrize(("field", "value"), [("hash", DIGEST), ("file", "openai/other.json")])
def test_an_entry_that_says_something_else_is_mf5(field: str, value: str) -> None:
    """Its file or its hash is not the record's; the finding has both."""
    manifest = _manifest()
    truth = manifest["snapshots"][1][field]
    manifest["snapshots"][1][field] = value
    (finding,) = check_manifest(_sealed(manifest), ENTRIES)

    assert ("MF5", f"$.snapshots[1].{field}") == (finding.rule, finding.path)
    assert value in finding.message
    assert truth in finding.message


def test_an_entry_of_another_provider_is_an_entry_without_record_and_a_record_without_entry() -> None:
    """Provider and id together name a record."""
    manifest = _manifest()
    manifest["snapshots"][2]["provider"] = "zzz"

    assert [("MF3", "$.snapshots[2]"), ("MF4", "$.snapshots")] == _rules(_sealed(manifest))


def test_entries_out_of_order_are_mf6() -> None:
    """By provider first, then by id."""
    by_id, by_provider = _manifest(), _manifest()
    by_id["snapshots"] = [by_id["snapshots"][place] for place in (0, 2, 1)]
    by_provider["snapshots"] = [by_provider["snapshots"][place] for place in (1, 2, 0)]

    assert [("MF6", "$.snapshots[2]")] == _rules(_sealed(by_id)) == _rules(_sealed(by_provider))


def test_a_duplicate_entry_is_mf6() -> None:
    """Beside its twin or far from it."""
    manifest = _manifest()
    manifest["snapshots"].append(manifest["snapshots"][0])

    assert [("MF6", "$.snapshots[3]")] == _rules(_sealed(manifest))


def test_a_wrong_hash_is_mf7() -> None:
    """Over the entries as they stand; the finding has both hashes."""
    manifest = _manifest()
    truth = manifest["hash"]
    (finding,) = check_manifest(json.dumps(manifest | {"hash": DIGEST}).encode(), ENTRIES)

    assert ("MF7", "$.hash") == (finding.rule, finding.path)
    assert DIGEST in finding.message
    assert truth in finding.message


@pytest.mark.parametrize("field", ["created_at", "updated_at"])
@pytest.mark.parametrize("value", ["2026-01-09T11:00:00Z", "2026-02-30T10:00:00Z"])
def test_a_wrong_time_is_mf8(field: str, value: str) -> None:
    """Another instant, or a day that does not exist."""
    assert [("MF8", f"$.{field}")] == _rules(_sealed(_manifest() | {field: value}))


@pytest.mark.parametrize("file", ["../a.json", "openai/../../a.json", "/etc/passwd", "openai\\a.json", ".."])
def test_an_entry_that_leads_out_of_the_tree_is_mf9(file: str) -> None:
    """Besides being another file than the record's."""
    manifest = _manifest()
    manifest["snapshots"][1]["file"] = file

    assert [("MF9", "$.snapshots[1].file"), ("MF5", "$.snapshots[1].file")] == _rules(_sealed(manifest))


def test_everything_wrong_is_reported_at_once() -> None:
    """One manifest with a missing file, a missing entry, a wrong hash, bad order and both times wrong."""
    manifest = _manifest()
    first, second, third = manifest["snapshots"]
    manifest["snapshots"] = [third | {"hash": DIGEST}, first, second | {"id": "unknown"}]
    manifest |= {"created_at": "2025-01-01T00:00:00Z", "updated_at": "2027-01-01T00:00:00Z"}

    assert {"MF3", "MF4", "MF5", "MF6", "MF7", "MF8"} == {rule for rule, _ in _rules(json.dumps(manifest).encode())}


def test_entries_of_unreadable_files_are_not_judged() -> None:
    """An unread file or folder has a finding of its own; its entries and the times cannot be judged."""
    data = write_manifest(ENTRIES)

    assert [] == check_manifest(data, ENTRIES[1:], frozenset({"anthropic/xyz789abc123.json"}))
    assert [] == check_manifest(data, ENTRIES[:1], frozenset({"openai/"}))
    assert ["MF3"] == [finding.rule for finding in check_manifest(data, ENTRIES[:2], frozenset({"anthropic/"}))]


# ---------------------------------------------------------------------------------------------
# Text that is no manifest


def test_text_that_is_not_json_could_not_be_checked() -> None:
    """PARSE, with the place."""
    (finding,) = check_manifest(b'{"version": ', ENTRIES)

    assert ("manifest.json", "PARSE") == (finding.file, finding.rule)
    assert "line 1 column" in finding.message


@pytest.mark.parametrize("before", ["", "{\n"])
def test_conflict_markers_are_recognised_with_a_hint_to_rebuild(before: str) -> None:
    """A merge left them, and rebuilding resolves them."""
    text = f'{before}<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> branch\n}}\n'
    (finding,) = check_manifest(text.encode(), ENTRIES)

    assert ("PARSE", f"conflict markers of a Git merge at line {2 if before else 1}") == (
        finding.rule,
        finding.message,
    )
    assert "traceforge snapshot manifest" in finding.hint


def test_a_conflict_marker_inside_a_json_string_is_text() -> None:
    """Only a text that is not JSON is searched for markers."""
    manifest = _manifest()
    manifest["snapshots"][0]["provider"] = "<<<<<<< HEAD"

    assert "PARSE" not in {rule for rule, _ in _rules(_sealed(manifest))}
