"""`context/compiler/`: orders that never change, and their names, recomputed here by hand."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.canon import JSON
from traceforge.context.compiler.block_manifest import manifest_digest, prefix_digests
from traceforge.context.compiler.compiler_revisions import DEFAULT_REVISION, REVISIONS, compile_sources, find_compiler
from traceforge.context.compiler.compiler_state import CompilerState
from traceforge.context.model.block_source import BlockSource, content_digest, event_role, kind_of
from traceforge.context.model.objects import ArtifactType, EventType
from traceforge.errors import StoreRefused, StoreUnavailable

KINDS = [kind + end for kind in (*ArtifactType, *EventType) for end in ("", "+json", "+binary")]

sources = st.builds(
    BlockSource,
    st.sampled_from([f"blk_{letter * 26}" for letter in "abcdefgh"]),
    st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    st.sampled_from([*KINDS, *["retrieval_result", "retrieval_result+json"] * 8]),
    st.integers(0, 5).map(lambda number: content_digest(str(number))),
)
source_lists = st.lists(sources, max_size=12)


def _event_block(event_type: EventType, content: JSON | bytes) -> BlockSource:
    kind = kind_of(event_type, content)
    return BlockSource("blk_" + "0" * 26, event_role(event_type), kind, content_digest(content))


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _by_hand(blocks: list[BlockSource]) -> str:
    """The manifest digest without a line of the product."""
    name = None
    for _, role, kind, content in blocks:
        text = b"traceforge.context.manifest.v1\n"
        text += b"prefix:-\n" if name is None else b"prefix:71:" + name.encode() + b"\n"
        for tag, value in (("role", role), ("kind", kind), ("content", content)):
            text += f"{tag}:{len(value)}:{value}\n".encode()
        name = _sha256(text)
    return name or _sha256(b"traceforge.context.manifest.v1\n")


GOLDEN = [
    BlockSource("blk_" + "0" * 26, "system", "policy", _sha256(b"Be brief.")),
    BlockSource("blk_" + "1" * 26, "system", "tool_bundle_source+json", _sha256(b'[{"name":"look_up"}]')),
    BlockSource("blk_" + "2" * 26, "user", "retrieval_chunk", _sha256(b"A chunk of the bundle.")),
    BlockSource("blk_" + "3" * 26, "user", "retrieval_result", _sha256(b"Paris is in France.")),
    BlockSource("blk_" + "4" * 26, "user", "user_message", _sha256("Où est Paris ?".encode())),
    BlockSource("blk_" + "5" * 26, "assistant", "assistant_message", _sha256(b"In France.")),
    BlockSource("blk_" + "6" * 26, "user", "retrieval_result+json", _sha256(b'{"hits":[]}')),
    BlockSource("blk_" + "7" * 26, "user", "user_message", _sha256(b"Thanks.")),
]
# A released revision gives these for ever. Whoever has to change a line here has changed what old snapshots mean.
RELEASED = {
    "pc_1": ("01234567", "sha256:505e0b20d07949ce6b2d591a661abc88fbd63e1628e191455ec16b3f25e8b3f9"),
    "pc_2": ("01245736", "sha256:4cc11862cb3453600401277f1298e84f76aa715f7affd6c0768b89dfea33db61"),
}
EMPTY = "sha256:eee481450882d62e99cb87e75f0c1b5f597bc2f1136845a222ce310bcfc5e909"


@pytest.mark.parametrize("revision", RELEASED)
def test_a_released_revision_never_changes(revision: str) -> None:
    """The order and the digest of one manifest are written down here, and the digest is also made by hand."""
    order, digest = RELEASED[revision]

    compiled = compile_sources(GOLDEN, revision)

    assert order == "".join(block.block_id[-1] for block in compiled.blocks)
    assert digest == compiled.digest == compiled.prefixes[-1]
    assert digest == _by_hand([GOLDEN[int(place)] for place in order])


def test_every_revision_is_pinned() -> None:
    """No revision is released without a line above, and the default is the first."""
    assert tuple(RELEASED) == REVISIONS
    assert "pc_1" == DEFAULT_REVISION == find_compiler().revision == compile_sources([]).revision


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_empty_manifest_has_a_digest(revision: str) -> None:
    """The domain without a field."""
    compiler = find_compiler(revision)

    assert EMPTY == _by_hand([]) == compile_sources([], revision).digest == compiler.finish(compiler.start())
    assert [] == compile_sources([], revision).prefixes


@pytest.mark.parametrize("revision", REVISIONS)
@fuzz(100)
@given(parts=st.lists(source_lists, max_size=5))
def test_incremental_compilation_gives_the_same_digest(revision: str, parts: list[list[BlockSource]]) -> None:
    """However the sources are cut, and through the text of each state, the digest and the order are the same."""
    compiler = find_compiler(revision)
    together = [source for part in parts for source in part]

    state = compiler.start()
    for part in parts:
        state = CompilerState(str(compiler.fold(state, iter(part))))
    compiled = compile_sources(together, revision)

    assert compiled.digest == compiler.finish(state) == _by_hand(compiled.blocks)
    assert state == compiler.fold(compiler.start(), together)
    assert compiled.blocks == compiler.arrange(state, together)
    assert [block.block_id for block in compiled.blocks] == compiler.arrange(
        state, [source.block_id for source in together]
    )


@fuzz(100)
@given(source_lists)
def test_pc_1_keeps_causal_order_and_pc_2_moves_retrieval_results_back(given_sources: list[BlockSource]) -> None:
    """pc_2 takes out the retrieval results alone, and puts them behind in their own order."""
    retrieved = [source for source in given_sources if source.kind.startswith("retrieval_result")]
    remaining = [source for source in given_sources if not source.kind.startswith("retrieval_result")]

    assert given_sources == compile_sources(given_sources, "pc_1").blocks
    assert remaining + retrieved == compile_sources(given_sources, "pc_2").blocks


@fuzz(100)
@given(source_lists, source_lists, source_lists)
def test_equal_prefixes_have_equal_digests(
    same: list[BlockSource], first_tail: list[BlockSource], other: list[BlockSource]
) -> None:
    """As many prefix digests agree as blocks do, whatever the blocks' ids are."""
    elsewhere = [block._replace(block_id="blk_" + "z" * 26) for block in same]
    first, second = [*same, *first_tail], [*elsewhere, *other]
    common = 0
    for left, right in zip(first, second, strict=False):
        if left[1:] != right[1:]:
            break
        common += 1

    ours, theirs = prefix_digests(first), prefix_digests(second)

    assert len(first) == len(ours)
    assert ours[:common] == theirs[:common]
    assert not set(ours[common:]) & set(theirs[common:])


@fuzz(100)
@given(source_lists, source_lists)
def test_the_digest_covers_role_kind_and_content_in_their_order_and_nothing_else(
    left: list[BlockSource], right: list[BlockSource]
) -> None:
    """Two manifests have the same digest if and only if these are equal."""
    same = [block[1:] for block in left] == [block[1:] for block in right]

    assert same == (manifest_digest(left) == manifest_digest(right))


def test_fields_that_run_into_each_other_do_not_collide() -> None:
    """A role and a kind that read the same together are still two fields."""
    digest = content_digest("")
    joined = {
        manifest_digest([BlockSource("b", *pair, digest)])
        for pair in (("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"))
    }

    assert 4 == len(joined)


def test_the_state_of_pc_1_does_not_grow() -> None:
    """However long the history is, its state is a count and one digest."""
    compiler = find_compiler("pc_1")

    short = compiler.fold(compiler.start(), GOLDEN)
    long = compiler.fold(compiler.start(), GOLDEN * 1000)

    assert len(short) + 3 == len(long)
    assert ["pc_1", 8000, _by_hand(GOLDEN * 1000), []] == json.loads(long)


@pytest.mark.parametrize(
    "state", ["", "[]", "{}", '["pc_2",0,null,[]]', '["pc_1","0",null,[]]', '["pc_1",0,null,[1]]']
)
def test_an_invalid_state_is_refused(state: str) -> None:
    """A damaged row does not become a digest."""
    compiler = find_compiler("pc_1")

    with pytest.raises(StoreUnavailable, match="not one of pc_1"):
        compiler.fold(CompilerState(state), GOLDEN)
    with pytest.raises(StoreUnavailable, match="not one of pc_1"):
        compiler.finish(CompilerState(state))


@pytest.mark.parametrize("revision", ["pc_3", "pc_0", "pc_01", "PC_1", "", "latest"])
def test_an_unknown_revision_is_refused_by_name(revision: str) -> None:
    """The error says which ones there are."""
    with pytest.raises(StoreRefused, match=r"this version knows pc_1, pc_2") as refused:
        find_compiler(revision)

    assert ("unknown_compiler_revision", "prompt_compiler_revision", 400) == (
        refused.value.reason,
        refused.value.param,
        refused.value.status,
    )


def test_the_role_of_every_event_is_decided() -> None:
    """Assistant and tool events have their own roles; all others have the user's role."""
    roles = {event_type.value: event_role(event_type) for event_type in EventType}

    assert roles == {
        "user_message": "user",
        "assistant_message": "assistant",
        "tool_result": "tool",
        "retrieval_result": "user",
        "checkpoint": "user",
        "note": "user",
    }


def test_a_text_is_not_the_value_that_is_written_the_same() -> None:
    """Equal bytes have equal digests; the kind tells text, JSON and bytes apart."""
    values: list[JSON | bytes] = ['{"a":1}', {"a": 1}, b'{"a":1}']
    sources = [_event_block(EventType.NOTE, value) for value in values]

    assert 1 == len({source.content_digest for source in sources})
    assert ["note", "note+json", "note+binary"] == [source.kind for source in sources]
    assert 3 == len({manifest_digest([source]) for source in sources})


@pytest.mark.parametrize("revision", REVISIONS)
def test_events_are_folded_as_they_are_made(revision: str) -> None:
    """Also those whose type is a member of an enum: its kind is a plain text, which a state can hold."""
    sources = [_event_block(event_type, "x") for event_type in EventType]
    compiler = find_compiler(revision)

    assert {str} == {type(source.kind) for source in sources}
    assert compile_sources(sources, revision).digest == compiler.finish(compiler.fold(compiler.start(), sources))


def test_the_content_digest_covers_the_utf_8_or_canonical_bytes() -> None:
    """UTF-8 of a text, canonical JSON of a value, bytes as they are."""
    assert _sha256("é".encode()) == content_digest("é")
    assert _sha256(b'{"a":[1,null],"b":"x"}') == content_digest({"b": "x", "a": [1.0, None]})
    assert _sha256(b"\x00\xff") == content_digest(b"\x00\xff")
    assert "document+json" == kind_of("document", [])
