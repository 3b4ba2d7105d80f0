"""Snapshot documents are written in one layout, and only if they are complete."""

from __future__ import annotations

import copy
import json

import pytest

from support.format_examples import SPECIFIED_DOCUMENT, full_record, least_record
from support.snapshot_documents import SPECIFIED_DOCUMENT_HASH, SPECIFIED_RECORD_HASH
from traceforge.errors import InvalidFile, NotCanonical
from traceforge.snapshots.formats.snapshot_format import RECORD_FIELDS, read_document, record_hash, write_document


def test_a_file_has_two_spaces_the_seeds_order_raw_utf_8_and_a_final_newline() -> None:
    """The written form, byte for byte, however the body was ordered."""
    body = least_record()
    body["response"]["content"] = 'é😀/"\u2028\ud800'
    data = write_document([dict(reversed(body.items()))])
    lines = data.decode().split("\n")

    assert ["{", '  "version": "1.0.0",', '  "snapshots": [', "    {", '      "id": "abc",'] == lines[:5]
    assert ["id", "timestamp", "source", "request", "response", "hash"] == list(json.loads(data)["snapshots"][0])
    assert '"content": "é😀/\\"\u2028\\ud800"' in data.decode()
    assert data.endswith(b'"\n}\n')
    assert b"\r" not in data


def test_writing_the_seeds_body_gives_the_seeds_file() -> None:
    """Written by us, the complete structure differs from the specification's text in its hashes and in 0.0 alone."""
    (body,) = copy.deepcopy(SPECIFIED_DOCUMENT)["snapshots"]
    text = write_document([body]).decode()
    seed = json.dumps(SPECIFIED_DOCUMENT, indent=2).replace("0.0,", "0,").replace("1.0,", "1,") + "\n"
    for stated, computed in (
        (SPECIFIED_DOCUMENT["snapshots"][0]["hash"], SPECIFIED_RECORD_HASH),
        (SPECIFIED_DOCUMENT["hash"], SPECIFIED_DOCUMENT_HASH),
    ):
        seed = seed.replace(stated, computed)

    assert seed == text


@pytest.mark.parametrize("field", RECORD_FIELDS)
def test_a_body_that_lacks_a_field_is_not_written(field: str) -> None:
    """A partial snapshot never reaches a file."""
    body = full_record()
    del body[field]
    with pytest.raises(InvalidFile, match=f"required field {field} is missing"):
        write_document([body])


def test_a_body_that_json_cannot_hold_is_not_written() -> None:
    """NaN has no text."""
    body = full_record()
    body["request"]["top_p"] = float("nan")
    with pytest.raises(NotCanonical):
        write_document([body])


def test_writing_does_not_change_the_body() -> None:
    """The caller's value keeps every type and order."""
    body = full_record()
    before = repr(body)
    write_document([body])

    assert before == repr(body)


def test_a_stale_hash_in_a_body_is_never_believed() -> None:
    """Every hash is computed when a document is written."""
    (record,) = read_document(write_document([least_record()]))
    changed = copy.deepcopy(record.body)
    changed["response"]["content"] = "changed"  # type: ignore[index,call-overload]
    (written,) = read_document(write_document([changed]))

    assert record.hash != written.hash == record_hash(changed)


def test_a_lone_surrogate_in_a_key_of_a_request_is_preserved() -> None:
    """A provider's member may be called anything that JSON can write."""
    body = least_record()
    body["request"]["\ud800"] = 1
    (record,) = read_document(write_document([body]))

    assert body["request"] == record.body["request"]
