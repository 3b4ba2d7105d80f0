"""The hashes of snapshots: what they cover, and that Node computes the same with the specification's own snippet."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.format_examples import DIGEST, full_record, least_record, with_hashes
from support.json_places import replace_at
from support.json_texts import fuzz, numbers, shallow_texts, strings
from support.node import Node
from support.snapshot_documents import (
    RECORD,
    SPECIFIED_DOCUMENT_HASH,
    SPECIFIED_RECORD_HASH,
    full_document,
    list_rules,
    specified_document,
)
from traceforge.canon import ecmascript_bytes, parse_json
from traceforge.errors import InvalidFile
from traceforge.snapshots.formats.snapshot_format import (
    RECORD_FIELDS,
    check_document,
    computed_hash,
    document_hash,
    read_document,
    record_hash,
    write_document,
)


@pytest.fixture(scope="module")
def seed_snippet() -> Iterator[Node]:
    """The specification's own JavaScript, to compute hashes with."""
    node = Node("snapshot_hash.js")
    yield node
    node.close()


@pytest.mark.parametrize("path", [(*RECORD, "request"), (*RECORD, "source"), (*RECORD, "response")])
def test_the_order_of_members_is_under_the_hash(path: tuple[str | int, ...]) -> None:
    """`JSON.stringify` prints members in file order, so moving one changes the hash."""
    document = full_document()
    members: dict[str, Any] = document["snapshots"][0][path[-1]]

    assert [("SN3", "$.snapshots[0].hash")] == list_rules(replace_at(document, path, dict(reversed(members.items()))))


def test_the_order_of_a_records_own_members_does_not_change_its_hash() -> None:
    """The five fields are always hashed in the specification's order, whatever their order in the file."""
    document = full_document()
    document["snapshots"] = [dict(reversed(record.items())) for record in document["snapshots"]]

    assert [] == check_document(dict(reversed(document.items())))


def test_the_document_hash_detects_an_exchanged_record() -> None:
    """Two records that are valid by themselves, in another order or fewer of them: SN4."""
    document = with_hashes({"version": "1.0.0", "snapshots": [full_record(), least_record()], "hash": ""})
    swapped = document | {"snapshots": document["snapshots"][::-1]}
    fewer = document | {"snapshots": document["snapshots"][:1]}

    assert [] == check_document(document)
    assert [("SN4", "$.hash")] == list_rules(swapped) == list_rules(fewer)


def test_every_wrong_hash_is_reported() -> None:
    """Two records: two findings, not only the first. The document's hash is judged once theirs are right."""
    document = with_hashes({"version": "1.0.0", "snapshots": [full_record(), least_record()], "hash": ""})
    document["snapshots"][0]["request"]["seed"] = 43
    document["snapshots"][1]["response"]["content"] = "other"
    document["hash"] = DIGEST

    assert [("SN3", "$.snapshots[0].hash"), ("SN3", "$.snapshots[1].hash")] == list_rules(document)[:2]
    assert ("SN4", "$.hash") == list_rules(with_hashes(document) | {"hash": DIGEST})[0]


def test_a_document_without_records_is_valid() -> None:
    """Readers accept any number of records."""
    assert () == read_document(write_document([]))


def test_the_computed_hash_ignores_the_stated_ones() -> None:
    """It is computed from the content alone."""
    document = replace_at(specified_document(), ("hash",), DIGEST)
    document["snapshots"][0]["hash"] = DIGEST

    assert SPECIFIED_DOCUMENT_HASH == computed_hash(ecmascript_bytes(document))
    with pytest.raises(InvalidFile):
        computed_hash(b'{"version": "1.0.0"}')
    with pytest.raises(InvalidFile):
        computed_hash(b'{"version": "0.9.0", "snapshots": [], "hash": ""}')


def test_checking_an_owned_document_finds_the_same() -> None:
    """`owned` is about speed: the findings are equal, whether the value may be used up or not."""
    document = replace_at(full_document(), (*RECORD, "request", "seed"), 1e21)

    assert check_document(copy.deepcopy(document)) == check_document(copy.deepcopy(document), owned=True)


# ---------------------------------------------------------------------------------------------
# Node, running the specification's own snippet on the file's bytes


# Members that providers add, with keys that JavaScript moves to the front.
EXTRA_KEYS = ("17", "4", "0", "4294967294", "4294967295", "-1", "01", "__proto__", "é", "😀", "\\ud83d", "\\u0031")
PLACEHOLDER = "sha256:" + "0" * 63


@st.composite
def _members(draw: st.DrawFn, fields: dict[str, str], *, extra: bool = False) -> str:
    """An object as text: members in any order, some written twice, some white space."""
    pairs = [f'"{key}"' + draw(st.sampled_from([":", ": ", " :\n"])) + text for key, text in fields.items()]
    if extra:
        for key in draw(st.lists(st.sampled_from(EXTRA_KEYS), max_size=4)):
            value = draw(numbers | strings(lone=True) | shallow_texts.map(bytes.decode))
            pairs.append(f'"{key}": {value}')
    return "{" + draw(st.sampled_from([",", ", ", ",\n  "])).join(draw(st.permutations(pairs))) + "}"


_notations = st.sampled_from(["0", "0.0", "-0", "1e-7", "0.000001", "1.5E0", "2", "20e-1", "1.0000000000000001"])
_counts = st.sampled_from(
    ["0", "12", "12.0", "1e3", "9007199254740993", "1e21", "123456789012345678901234567890", "0.1"]
)


@st.composite
def _record_texts(draw: st.DrawFn, number: int) -> str:
    messages = [
        draw(_members({"role": '"user"', "content": draw(strings(lone=True))}, extra=True))
        for _ in range(draw(st.integers(1, 2)))
    ]
    request = {
        "model": '"gpt-4"',
        "messages": f"[{','.join(messages)}]",
        "temperature": draw(_notations),
        "max_tokens": draw(st.sampled_from(["1", "12.0", "1e2", "9007199254740993", "-1"])),
        "seed": draw(numbers),
    }
    response = {
        "content": draw(strings(lone=True)),
        "tokens_used": draw(_counts),
        "latency_ms": draw(_counts),
        "finish_reason": '"stop"',
        "tool_calls": f"[{draw(_members({'id': draw(numbers)}, extra=True))}]",
    }
    source = {
        "file": '"a.py"',
        "line": draw(st.sampled_from(["0", "12.0", "1e2"])),
        "function": draw(strings(lone=True)),
    }
    record = {
        "id": f'"snap-{number}"',
        "timestamp": '"2026-01-09T10:30:00Z"',
        "source": draw(_members(source)),
        "request": draw(_members(request, extra=True)),
        "response": draw(_members(response)),
        "hash": f'"{PLACEHOLDER}{number}"',
    }
    return draw(_members(record))


@st.composite
def _document_texts(draw: st.DrawFn) -> str:
    records = [draw(_record_texts(number)) for number in range(draw(st.integers(1, 2)))]
    document = {"version": '"1.0.0"', "snapshots": f"[{', '.join(records)}]", "hash": f'"{PLACEHOLDER}f"'}
    return draw(_members(document))


def _assert_hashed_as_node_does(node: Node, texts: list[str]) -> None:
    for text, answer in zip(texts, node.ask([text.encode() for text in texts]), strict=True):
        value: Any = parse_json(text.encode())
        assert [f"sha256:{digest}" for digest in answer["records"]] == [record_hash(r) for r in value["snapshots"]]
        stated = [record["hash"] for record in value["snapshots"]]
        assert f"sha256:{answer['combined']}" == document_hash(value["version"], stated)
        sealed = text
        for number, digest in enumerate(answer["records"]):
            sealed = sealed.replace(f"{PLACEHOLDER}{number}", f"sha256:{digest}")
        (with_combined,) = node.ask([sealed.encode()])
        data = sealed.replace(f"{PLACEHOLDER}f", f"sha256:{with_combined['combined']}").encode()
        records = read_document(data)
        assert [f"sha256:{digest}" for digest in answer["records"]] == [record.hash for record in records]
        assert [] == check_document(parse_json(data), owned=True)
        assert f"sha256:{with_combined['combined']}" == computed_hash(data)


@settings(fuzz(60), suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_document_texts(), min_size=1, max_size=4))
def test_every_document_has_the_hashes_that_the_seeds_snippet_gives(seed_snippet: Node, texts: list[str]) -> None:
    """Key order, integer-like keys, notation, big integers, lone surrogates: a file that Node hashed is valid."""
    _assert_hashed_as_node_does(seed_snippet, texts)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_document_texts(), min_size=1, max_size=5))
def test_many_documents_have_the_hashes_that_the_seeds_snippet_gives(seed_snippet: Node, texts: list[str]) -> None:
    """The same for a thousand documents; `make soak` tries more."""
    _assert_hashed_as_node_does(seed_snippet, texts)


def test_the_seeds_snippet_agrees_on_the_seeds_structure(seed_snippet: Node) -> None:
    """The two literal hashes at the top of this file are Node's."""
    (answer,) = seed_snippet.ask([ecmascript_bytes(specified_document())])

    assert [SPECIFIED_RECORD_HASH] == [f"sha256:{digest}" for digest in answer["records"]]
    assert SPECIFIED_DOCUMENT_HASH == f"sha256:{answer['combined']}"


@settings(fuzz(60), suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_document_texts(), min_size=1, max_size=3))
def test_a_written_document_is_read_back_and_hashes_the_same_in_node(seed_snippet: Node, texts: list[str]) -> None:
    """Write, read, write: the same records, the same bytes, and Node agrees with every stated hash."""
    for text in texts:
        value: Any = parse_json(text.encode())
        data = write_document([{name: record[name] for name in RECORD_FIELDS} for record in value["snapshots"]])
        records = read_document(data)
        (answer,) = seed_snippet.ask([data])

        assert [record_hash(record) for record in value["snapshots"]] == [record.hash for record in records]
        assert [f"sha256:{digest}" for digest in answer["records"]] == [record.hash for record in records]
        assert f'"hash": "sha256:{answer["combined"]}"\n}}\n' == data.decode()[-len(answer["combined"]) - 20 :]
        assert data == write_document([record.body for record in records])
