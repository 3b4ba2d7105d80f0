"""Nobody can change an approved tree unseen: every single change of meaning is found.

Whether a change alters meaning is judged by Node.js, which reads the same bytes: it does where the file is no
longer JSON, or where what it holds is printed differently (a document's hash covers the order of keys, a
manifest's does not).
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
from traceforge.snapshots.tree.tree_verification import verify_tree

FILES = scale_examples(200)


class Tree:
    """A tree that tests change and put back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.documents = sorted((root / "openai").iterdir())
        self.manifest = root / "manifest.json"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A valid tree of so many documents; it must be valid again at the end."""
    root = write_tree(tmp_path_factory.mktemp("tamper") / ".ai-snapshots", FILES)
    made = Tree(root)
    assert () == verify_tree(str(root), {}).findings
    yield made
    assert () == verify_tree(str(root), {}).findings


def is_found(tree: Tree) -> bool:
    """Does the check see anything?"""
    return bool(verify_tree(str(tree.root), {}).findings)


def is_altered(oracle: CanonicalOracle, before: bytes, after: bytes, *, ordered: bool) -> bool:
    """Does JavaScript read something else? The order of keys matters only where a hash covers it."""
    old, new = oracle.judge([before, after])
    if new.error:
        return True
    return old.ecmascript != new.ecmascript if ordered else old.canonical != new.canonical


often = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
change = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))


@change
@given(data=st.data())
def test_every_byte_that_matters_is_covered(tree: Tree, oracle: CanonicalOracle, data: st.DataObject) -> None:
    """A byte changed, deleted, doubled or swapped is found exactly where it alters meaning."""
    _change_a_byte(tree, oracle, data)


@pytest.mark.slow
@often
@given(data=st.data())
def test_every_byte_that_matters_is_covered_at_length(
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
        found = is_found(tree)
    finally:
        victim.write_bytes(original)

    assert altered == found


@few
@given(data=st.data())
def test_every_line_of_the_manifest_counts(tree: Tree, oracle: CanonicalOracle, data: st.DataObject) -> None:
    """A manifest line deleted, doubled or swapped with another is found where it alters meaning."""
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
        found = is_found(tree)
    finally:
        tree.manifest.write_bytes(original)

    assert altered == found


@few
@given(data=st.data())
def test_every_file_counts(tree: Tree, data: st.DataObject) -> None:
    """A file deleted, copied, renamed, moved to another provider or swapped with another is found."""
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
        found = is_found(tree)
    finally:
        stray.unlink(missing_ok=True)
        if stray.parent != victim.parent:
            stray.parent.rmdir()
        victim.write_bytes(original)
        other.write_bytes(original_other)

    assert found
