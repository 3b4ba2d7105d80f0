"""No change of an approved tree goes unnoticed: every single change of meaning is found.

Node.js decides whether a change alters meaning: it does where the file is no longer JSON, or where its content is
printed differently (a document's hash covers the order of keys, a manifest's does not).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.example_counts import scale_examples
from support.node import CanonicalOracle
from support.sample_files import write_tree
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree.tree_verification import verify_tree

FILES = scale_examples(200)


class Tree:
    """A tree that tests change and restore."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.documents = sorted((root / "openai").iterdir())
        self.manifest = root / "manifest.json"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A valid tree; it must be valid again at the end."""
    root = write_tree(tmp_path_factory.mktemp("tamper") / ".ai-snapshots", FILES)
    valid_tree = Tree(root)
    assert () == verify_tree(str(root), ModelPolicy()).findings
    yield valid_tree
    assert () == verify_tree(str(root), ModelPolicy()).findings


def has_findings(tree: Tree) -> bool:
    return bool(verify_tree(str(tree.root), ModelPolicy()).findings)


def is_altered(oracle: CanonicalOracle, before: bytes, after: bytes, *, ordered: bool) -> bool:
    """Whether JavaScript reads another value. The order of keys matters only where a hash covers it."""
    old, new = oracle.judge([before, after])
    if new.error:
        return True
    return old.ecmascript != new.ecmascript if ordered else old.canonical != new.canonical


often = settings(max_examples=scale_examples(1500), deadline=None, suppress_health_check=list(HealthCheck))
change = settings(max_examples=scale_examples(400), deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=scale_examples(250), deadline=None, suppress_health_check=list(HealthCheck))


@change
@given(data=st.data())
def test_a_changed_byte_is_found_exactly_where_it_alters_meaning(
    tree: Tree, oracle: CanonicalOracle, data: st.DataObject
) -> None:
    """Changed, deleted, doubled or swapped."""
    _change_a_byte(tree, oracle, data)


@pytest.mark.slow
@often
@given(data=st.data())
def test_many_changed_bytes_are_found_exactly_where_they_alter_meaning(
    tree: Tree, oracle: CanonicalOracle, data: st.DataObject
) -> None:
    """The same, four times as often."""
    _change_a_byte(tree, oracle, data)


def _change_a_byte(tree: Tree, oracle: CanonicalOracle, data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from([*tree.documents, tree.manifest]))
    original = victim.read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    byte = original[place : place + 1]
    kind = data.draw(st.sampled_from(["change", "delete", "double", "swap"]))
    if kind == "change":
        changed = bytes([data.draw(st.integers(0, 255))])
        mutated = original[:place] + changed + original[place + 1 :]
    elif kind == "delete":
        mutated = original[:place] + original[place + 1 :]
    elif kind == "double":
        mutated = original[:place] + byte + original[place:]
    else:
        other = data.draw(st.integers(0, len(original) - 1))
        swapped = bytearray(original)
        swapped[place], swapped[other] = swapped[other], swapped[place]
        mutated = bytes(swapped)
    altered = is_altered(oracle, original, mutated, ordered=victim != tree.manifest)

    victim.write_bytes(mutated)
    try:
        is_red = has_findings(tree)
    finally:
        victim.write_bytes(original)

    assert altered == is_red


@few
@given(data=st.data())
def test_a_changed_manifest_line_is_found_where_it_alters_meaning(
    tree: Tree, oracle: CanonicalOracle, data: st.DataObject
) -> None:
    """Deleted, doubled or swapped with another."""
    original = tree.manifest.read_bytes()
    lines = original.split(b"\n")
    first, second = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, len(lines) - 1))
    kind = data.draw(st.sampled_from(["delete", "double", "swap"]))
    if kind == "delete":
        lines.pop(first)
    elif kind == "double":
        lines.insert(second, lines[first])
    else:
        lines[first], lines[second] = lines[second], lines[first]
    mutated = b"\n".join(lines)
    altered = is_altered(oracle, original, mutated, ordered=False)

    tree.manifest.write_bytes(mutated)
    try:
        is_red = has_findings(tree)
    finally:
        tree.manifest.write_bytes(original)

    assert altered == is_red


@few
@given(data=st.data())
def test_a_deleted_copied_or_moved_file_is_found(tree: Tree, data: st.DataObject) -> None:
    """Also renamed, or swapped with another."""
    victim, other = data.draw(st.permutations(tree.documents).map(lambda files: files[:2]))
    original, original_other = victim.read_bytes(), other.read_bytes()
    kind = data.draw(st.sampled_from(["delete", "copy", "rename", "move", "swap", "overwrite"]))
    stray = victim.with_name("zz-copy.json")
    if kind == "delete":
        victim.unlink()
    elif kind == "copy":
        shutil.copy(victim, stray)
    elif kind == "rename":
        victim.rename(stray)
    elif kind == "move":
        stray = tree.root / "anthropic" / victim.name
        stray.parent.mkdir()
        victim.rename(stray)
    else:
        victim.write_bytes(original_other)
        if kind == "swap":
            other.write_bytes(original)

    try:
        is_red = has_findings(tree)
    finally:
        stray.unlink(missing_ok=True)
        if stray.parent != victim.parent:
            stray.parent.rmdir()
        victim.write_bytes(original)
        other.write_bytes(original_other)

    assert is_red
