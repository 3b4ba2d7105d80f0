"""`packs/pack_archive.py`: one reproducible file, read in memory, and nothing that only looks like one."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from support.pack_sources import make_key, write_sources
from traceforge.packs import pack_archive as module
from traceforge.packs.pack_archive import MEMBER_FOLDER, member_header, read_archive, read_pack, write_archive
from traceforge.packs.pack_verifier import pack_findings, verify_pack
from traceforge.packs.pack_writer import create_pack


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed pack with every file, for tests that only look."""
    folder = tmp_path_factory.mktemp("packs")
    create_pack(str(folder / "pack"), write_sources(folder / "in"), str(make_key(folder)))
    return folder / "pack"


def _tar(pack: Path) -> bytes:
    contents = read_pack(str(pack))
    return zstandard.ZstdDecompressor().decompress(write_archive(contents.files, contents.signature))


def _write(path: Path, tar: bytes) -> Path:
    path.write_bytes(zstandard.ZstdCompressor(level=3).compress(tar))
    return path


def _rules(path: Path) -> list[str]:
    return [violation.rule_id for violation in verify_pack(str(path)).violations]


def test_an_archive_holds_the_pack(pack: Path, tmp_path: Path) -> None:
    """File by file, with its signature; and it verifies as the folder does."""
    contents = read_pack(str(pack))
    path = tmp_path / "a.tar.zst"
    path.write_bytes(write_archive(contents.files, contents.signature))
    back = read_archive(str(path))
    public = (pack.parent / "key.pub").read_text()

    assert (contents.files, contents.signature, contents.names) == (back.files, back.signature, back.names)
    assert verify_pack(str(pack), key=public)[1:] == verify_pack(str(path), key=public)[1:]
    assert [] == _rules(path)


def test_the_same_pack_gives_the_same_bytes(pack: Path) -> None:
    """In whatever order its files are given: no time, no owner, no order of the disk."""
    contents = read_pack(str(pack))
    turned = dict(reversed(contents.files.items()))

    assert write_archive(contents.files, None) == write_archive(turned, None)


def test_other_programs_unpack_it(pack: Path, tmp_path: Path) -> None:
    """`tar` and Python read what we write, and what they unpack verifies with its signature."""
    (tmp_path / "a.tar").write_bytes(_tar(pack))
    subprocess.run(["tar", "-xf", "a.tar"], cwd=tmp_path, check=True)
    with tarfile.open(tmp_path / "a.tar") as opened:
        members = opened.getmembers()

    assert {(0o644, 0, 0, 0)} == {(member.mode, member.uid, member.gid, member.mtime) for member in members}
    assert sorted(os.listdir(pack)) == sorted(os.listdir(tmp_path / "pack"))
    assert () == verify_pack(str(tmp_path / "pack"), key=(pack.parent / "key.pub").read_text()).violations


def test_reading_an_archive_writes_nothing_to_disk(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is as it was, also where there is no place for temporary files."""
    contents = read_pack(str(pack))
    path = tmp_path / "a.tar.zst"
    path.write_bytes(write_archive(contents.files, None))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    before = sorted(os.listdir(tmp_path))

    assert [] == _rules(path)
    assert before == sorted(os.listdir(tmp_path))


def _member(name: str, data: bytes = b"{}", change: Callable[[tarfile.TarInfo], object] = lambda info: None) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    change(info)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as written:
        written.addfile(info, io.BytesIO(data) if info.size else None)
    return buffer.getvalue()[: 512 + len(data) + -len(data) % 512]


def _link(kind: bytes) -> Callable[[tarfile.TarInfo], object]:
    return lambda info: (setattr(info, "type", kind), setattr(info, "linkname", "/etc/passwd"))


@pytest.mark.parametrize(
    ("member", "rule"),
    [
        (_member("pack/../../etc/cron.d/x"), "PK7"),
        (_member("/etc/passwd"), "PK7"),
        (_member("pack/..\\x"), "PK7"),
        (_member("pack/run.json", b"", _link(tarfile.SYMTYPE)), "PK6"),
        (_member("pack/run.json", b"", _link(tarfile.LNKTYPE)), "PK6"),
        (_member("pack/", b"", lambda info: setattr(info, "type", tarfile.DIRTYPE)), "PK12"),
        (_member("pack/run.json", b"", lambda info: setattr(info, "type", tarfile.FIFOTYPE)), "PK12"),
        (_member("pack/run.json", b"", lambda info: setattr(info, "type", tarfile.CHRTYPE)), "PK12"),
        (_member("pack/run.json", b"", lambda info: setattr(info, "type", b"x")), "PK12"),
        (_member("pack/run.json", b"", lambda info: setattr(info, "type", b"L")), "PK12"),
        (_member("pack/run.json", b"", lambda info: setattr(info, "type", b"\0")), "PK12"),
        (_member("pack/notes.txt"), "PK2"),
        (_member("run.json"), "PK2"),
        (_member("pack/run.json", b"{}", lambda info: setattr(info, "mode", 0o755)), "PK13"),
        (_member("pack/run.json", b"{}", lambda info: setattr(info, "mtime", 1)), "PK13"),
        (_member("pack/run.json", b"{}", lambda info: setattr(info, "uname", "root")), "PK13"),
        (_member("pack/run.json") + _member("pack/run.json"), "PK13"),
        (_member("pack/run.json") + _member("pack/bundle.json"), "PK13"),
        (member_header("pack/run.json", 2) + b"{}" + b"x" * 510, "PK13"),
        (member_header("pack/run.json", 7) + b"{}", "PK13"),
        (member_header("pack/run.json", 2).replace(b"00000000002", b"0000000000z") + b"{}" + bytes(510), "PK13"),
    ],
)
def test_a_member_that_differs_from_our_format_is_refused(tmp_path: Path, member: bytes, rule: str) -> None:
    """Traversal, links, devices, folders, extended heads, duplicates, disorder: each by its rule, and it alone."""
    path = _write(tmp_path / "a.tar.zst", member + bytes(1024))

    assert [rule] == _rules(path)
    assert 1 == len(pack_findings(verify_pack(str(path))))


def test_a_plain_member_is_accepted(tmp_path: Path) -> None:
    """The counterpart: our head around the same file is read, so it is the difference that is refused."""
    path = _write(tmp_path / "a.tar.zst", member_header("pack/run.json", 2) + b"{}" + bytes(510) + bytes(1024))

    assert {"run.json": b"{}"} == read_archive(str(path)).files


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"x",
        lambda data: data + data,
        lambda data: data + zstandard.ZstdCompressor().compress(b"more"),
        lambda data: data + b"\x50\x2a\x4d\x18\x01\x00\x00\x00x",  # a frame that decoders skip
    ],
)
def test_a_cut_or_longer_archive_is_refused(pack: Path, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    """Nothing may stand behind the frame, and the frame must be whole."""
    contents = read_pack(str(pack))
    path = tmp_path / "a.tar.zst"
    path.write_bytes(change(write_archive(contents.files, None)))

    assert ["PK13"] == _rules(path)


def test_bytes_after_the_end_of_the_tar_are_refused(pack: Path, tmp_path: Path) -> None:
    """Zeros, too: the same pack has one archive."""
    tar = _tar(pack)

    assert [] == _rules(_write(tmp_path / "a", tar))
    assert ["PK13"] == _rules(_write(tmp_path / "b", tar + bytes(512)))
    assert ["PK13"] == _rules(_write(tmp_path / "c", tar[:-512]))
    assert ["PK13"] == _rules(_write(tmp_path / "d", tar[:-512] + b"x" * 512))


@pytest.mark.slow
def test_a_bomb_is_refused_early(tmp_path: Path) -> None:
    """A megabyte that would become ten gigabytes stops within a fraction of that, whatever its head promises."""
    size = 8 << 30
    frame = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [frame.compress(member_header(f"{MEMBER_FOLDER}run.json", size - 1))]
    parts += [frame.compress(bytes(1 << 24)) for _ in range(64)]
    path = tmp_path / "bomb.tar.zst"
    path.write_bytes(b"".join([*parts, frame.flush()]))

    assert ["PK13"] == _rules(path)
    small = tmp_path / "small.tar.zst"
    frame = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [
        frame.compress(member_header(f"{MEMBER_FOLDER}run.json", 200 << 20)),
        *(frame.compress(bytes(1 << 24)) for _ in range(13)),
    ]
    small.write_bytes(b"".join([*parts, frame.flush()]))
    report = verify_pack(str(small))

    assert ["PK13"] == [violation.rule_id for violation in report.violations]
    assert "times its size" in report.violations[0].message


def test_a_frame_that_requires_too_much_memory_is_refused(tmp_path: Path) -> None:
    """Before a byte of it is expanded."""
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    path = tmp_path / "a.tar.zst"
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    noise = random.Random(1).randbytes(1 << 20)
    path.write_bytes(
        compressor.compress(member_header(f"{MEMBER_FOLDER}run.json", 1 << 20) + noise + bytes(1024))
        + compressor.flush()
    )

    assert ["PK13"] == _rules(path)


def test_a_large_recording_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large and honest is taken: here the free part is made small, and the content is prose."""
    monkeypatch.setattr(module, "UNCHECKED_EXPANSION_BYTES", 1 << 10)
    words = [f"word{number}" for number in range(500)]
    data = b'{"x":"' + " ".join(random.Random(2).choices(words, k=50_000)).encode() + b'"}'
    path = tmp_path / "a.tar.zst"
    path.write_bytes(write_archive({"meta.json": data}, None))

    assert {"meta.json": data} == read_archive(str(path)).files


def test_a_file_that_is_not_an_archive_is_only_unreadable(tmp_path: Path) -> None:
    """Exit code 3: nothing is known about it."""
    path = tmp_path / "a.tar.zst"
    path.write_bytes(b"PK\x03\x04 something else")

    assert ["IO"] == _rules(path)
