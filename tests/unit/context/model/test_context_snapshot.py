"""`context/model/context_snapshot.py`: exactly the object of the specification and its manifest digest."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.corpus import need_shared
from support.format_examples import DIGEST, example_context_snapshot
from traceforge.context.model.context_snapshot import (
    ContextSnapshot,
    check_context_snapshot,
    read_context_snapshot,
    write_context_snapshot,
)
from traceforge.errors import InvalidFile, NotJSON
from traceforge.ids import new_id, seeded

FIELDS = list(example_context_snapshot())


def _rules(value: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check_context_snapshot(value)]


def test_a_snapshot_has_the_fields_of_the_specification_and_the_digest() -> None:
    """The specified object in its order, and `ordered_block_manifest_digest` behind the manifest."""
    text = need_shared("seeds/004_6752c8e095ba9743.txt").read_text(encoding="utf-8")
    seed = json.loads(text[text.index("{") : text.index("}") + 1])

    assert list(seed) == [name for name in FIELDS if name != "ordered_block_manifest_digest"]


def test_the_seeds_example_is_valid_with_whole_ids() -> None:
    """The seed abbreviates its ids; with 26 characters each, its values are ours."""
    with seeded(1):
        value = {
            "id": new_id("snp"),
            "object": "snapshot",
            "session_id": new_id("ses"),
            "branch_id": new_id("br"),
            "branch_version": 17,
            "prompt_compiler_revision": "pc_11",
            "ordered_block_manifest": [new_id("blk") for _ in range(3)],
            "ordered_block_manifest_digest": DIGEST,
            "created_at": "2026-06-09T20:15:00Z",
        }
    snapshot = read_context_snapshot(json.dumps(value).encode())

    assert value == msgspec.to_builtins(snapshot)
    assert 17 == snapshot.branch_version


@pytest.mark.parametrize("blocks", ["", "1", "123", "11"])
def test_what_is_written_is_read_again(blocks: str) -> None:
    """No block, one, many, the same one twice: equal values, and the same bytes when written again."""
    snapshot = msgspec.convert(example_context_snapshot(*blocks), ContextSnapshot)
    data = write_context_snapshot(snapshot)

    assert snapshot == read_context_snapshot(data)
    assert data == write_context_snapshot(read_context_snapshot(data))


def test_a_file_has_the_seeds_order_two_spaces_and_a_final_newline() -> None:
    """Whatever order its fields were read in; a version read as 17.0 is written as 17."""
    value = dict(reversed((example_context_snapshot("1") | {"branch_version": 17.0}).items()))
    text = write_context_snapshot(read_context_snapshot(json.dumps(value).encode())).decode()

    assert json.dumps(example_context_snapshot("1"), indent=2) + "\n" == text


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_required(field: str) -> None:
    """No default for any of the nine."""
    value = example_context_snapshot("1")
    del value[field]

    assert [("CS1", f"$.{field}")] == _rules(value)


@pytest.mark.parametrize("field", ["model", "tokenizer", "content", "\ud800"], ids=ascii)
def test_no_other_field_is_allowed(field: str) -> None:
    """It says nothing about models, tokenizers or engines, and holds no content."""
    assert ["CS1"] == [rule for rule, _ in _rules(example_context_snapshot("1") | {field: "x"})]


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        *[("id", bad) for bad in (None, 5, "", "snp_", "snp_" + "0" * 25, "ses_" + "0" * 26, "snp_" + "O" * 26)],
        ("id", "snp_" + "0" * 26 + "\n"),
        ("object", "snapshots"),
        ("object", None),
        ("session_id", "snp_" + "0" * 26),
        ("branch_id", "br_" + "0" * 27),
        *[("branch_version", bad) for bad in (-1, 0.5, "17", None, True)],
        *[("prompt_compiler_revision", bad) for bad in ("pc_", "pc_0", "pc_01", "pc_1\n", "11", "pc_١", 11)],
        ("ordered_block_manifest", None),
        ("ordered_block_manifest", {}),
        ("ordered_block_manifest_digest", DIGEST.upper()),
        ("created_at", "2026-06-09"),
        ("created_at", "2026-02-30T00:00:00Z"),
    ],
    ids=ascii,
)
def test_a_bad_field_is_one_finding(field: str, bad: Any) -> None:
    """Type, spelling, range, calendar."""
    assert [("CS1", f"$.{field}")] == _rules(example_context_snapshot("1") | {field: bad})


def test_every_bad_block_is_named_with_its_place() -> None:
    """All of them, not only the first."""
    value = example_context_snapshot("1", "2", "3", "4")
    value["ordered_block_manifest"][1] = "evt_" + "0" * 26
    value["ordered_block_manifest"][3] = None

    assert [("CS1", "$.ordered_block_manifest[1]"), ("CS1", "$.ordered_block_manifest[3]")] == _rules(value)


@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_a_snapshot_that_is_not_an_object_is_one_finding(value: Any) -> None:
    assert [("CS1", "$")] == _rules(value)


def test_an_invalid_snapshot_is_not_read() -> None:
    """The error has every finding, for this file."""
    with pytest.raises(InvalidFile) as caught:
        read_context_snapshot(json.dumps(example_context_snapshot() | {"id": "", "object": ""}).encode())
    with pytest.raises(NotJSON):
        read_context_snapshot(b"{")

    assert ["$.id", "$.object"] == [finding.path for finding in caught.value.findings]
    assert "a.json" == check_context_snapshot(None, "a.json")[0].file


def test_a_snapshot_cannot_be_changed() -> None:
    """A response pins it for ever."""
    snapshot = msgspec.convert(example_context_snapshot(), ContextSnapshot)
    with pytest.raises(AttributeError):
        snapshot.branch_version = 18  # type: ignore[misc]
