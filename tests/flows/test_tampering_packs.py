"""Every changed byte of a signed pack is found, and its file is named."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.pack_sources import make_key, write_sources
from traceforge.packs.pack_archive import read_pack
from traceforge.packs.pack_contents import PackContents
from traceforge.packs.pack_signature import load_public_key
from traceforge.packs.pack_verifier import PackReport, verify_contents, verify_pack
from traceforge.packs.pack_writer import create_pack, export_archive

SAMPLES = 60


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed pack with every file, and an archive of it."""
    folder = tmp_path_factory.mktemp("signed")
    create_pack(str(folder / "pack"), write_sources(folder / "in"), str(make_key(folder)))
    export_archive(read_pack(str(folder / "pack")), str(folder / "pack.tar.zst"))
    return folder / "pack"


def _changes(pack: Path) -> Iterator[tuple[str, int]]:
    """Every byte of every file, and of the signature."""
    for path in [*sorted(pack.iterdir()), pack.parent / "pack.sig.json"]:
        for place in range(path.stat().st_size):
            yield path.name, place


def _changed(contents: PackContents, name: str, place: int, by: int) -> PackContents:
    assert contents.signature is not None
    files, signature = dict(contents.files), contents.signature
    if name == "pack.sig.json":
        signature = _flip(signature, place, by)
    else:
        files[name] = _flip(files[name], place, by)
    return PackContents(contents.pack, contents.names, files, [], signature, contents.signature_name)


def _flip(data: bytes, place: int, by: int) -> bytes:
    return data[:place] + bytes([data[place] ^ by]) + data[place + 1 :]


def _missed(pack: Path, places: list[tuple[str, int]], flips: list[int]) -> list[tuple[str, int, int]]:
    key = load_public_key(str(pack.parent / "key.pub"))
    contents = read_pack(str(pack))
    return [
        (name, place, by)
        for name, place in places
        for by in flips
        if not _names(verify_contents(_changed(contents, name, place, by), key=key), name)
    ]


def _names(report: PackReport, name: str) -> bool:
    return any(violation.path == name for violation in report.violations)


def test_a_changed_byte_of_a_signed_pack_is_found_and_its_file_named(pack: Path) -> None:
    """A sample of the bytes; `make test-all` takes all."""
    places = random.Random(7).sample(list(_changes(pack)), SAMPLES)

    assert () == verify_pack(str(pack), key=load_public_key(str(pack.parent / "key.pub"))).violations
    assert [] == _missed(pack, places, [1])


@pytest.mark.slow
def test_every_changed_byte_of_a_signed_pack_is_found_and_its_file_named(
    pack: Path, record_property: Callable[[str, object], None]
) -> None:
    """Two changes of every byte of every file and of the signature: its lowest bit, and the case of a letter."""
    places = list(_changes(pack))
    missed = _missed(pack, places, [1, 0x20])
    record_property("summary", f"signed pack: {2 * len(places)} changed bytes, {len(missed)} not found")

    assert [] == missed


@pytest.mark.slow
def test_a_changed_byte_of_an_archive_is_found_or_changes_no_file(pack: Path, tmp_path: Path) -> None:
    """The archive is broken or its signature invalid; or the byte had no meaning."""
    data = (pack.parent / "pack.tar.zst").read_bytes()
    key = load_public_key(str(pack.parent / "key.pub"))
    original, path = read_pack(str(pack)), tmp_path / "a.tar.zst"
    missed = []
    for place in range(len(data)):
        path.write_bytes(_flip(data, place, 1))
        if not verify_pack(str(path), key=key).violations and read_pack(str(path)).files != original.files:
            missed.append(place)

    assert [] == missed


def test_an_unsigned_pack_finds_changes_that_a_hash_or_rule_covers(pack: Path) -> None:
    """And no changes of ephemeral fields: only a signature covers those, as documented."""
    original = read_pack(str(pack))
    covered = (
        ("bundle.json", b"Paris"),
        ("model_io.json", b"Lyon"),
        ("run.json", b"bundle-1"),
        ("policy.json", b"max"),
    )
    ephemeral = (
        ("model_io.json", b"latency_ms"),
        ("run.json", b"accept"),
        ("evidence.json", b"e"),
        ("meta.json", b"2"),
    )

    def is_found(name: str, text: bytes) -> bool:
        assert text in original.files[name]
        changed = {**original.files, name: original.files[name].replace(text, text[:-1] + bytes([text[-1] ^ 1]))}
        return bool(verify_contents(PackContents(original.pack, original.names, changed)).violations)

    assert [True] * 4 == [is_found(*change) for change in covered]
    assert [False] * 4 == [is_found(*change) for change in ephemeral]
