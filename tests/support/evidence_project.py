"""A project with a recording, a pack and its archive, all valid."""

from __future__ import annotations

import json
from pathlib import Path

import zstandard

from support.format_examples import example_session
from support.pack_sources import write_sources
from traceforge.packs.pack_archive import member_header, read_pack
from traceforge.packs.pack_writer import create_pack, export_archive


def make_evidence_project(folder: Path) -> Path:
    """The project in a folder of this folder, so that there is something outside of it."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "traceforge.config.json").write_text("{}")
    write_evidence(project, folder / "sources")
    return project


def write_evidence(project: Path, sources: Path) -> None:
    """Write the recording, the pack and its archive; `sources` gets the files that the pack is made of."""
    (project / "evidence").mkdir(parents=True)
    write_recording(project / "evidence/chat.json")
    pack = str(project / "evidence/run-1")
    create_pack(pack, write_sources(sources), "")
    export_archive(read_pack(pack), f"{pack}.tar.zst", overwrite=False)


def write_recording(path: Path, changed_answer: str = "") -> None:
    """A recording of two answers; with `changed_answer`, the second one was edited after it was recorded."""
    session = example_session("Paris.", "Lyon.")
    if changed_answer:
        session["interactions"][1]["response_content"] = changed_answer
    path.write_text(json.dumps(session))


def tamper_with_bundle(pack: Path) -> None:
    """Edit the bundle of a pack after its digest was stated."""
    bundle = pack / "bundle.json"
    bundle.write_bytes(bundle.read_bytes().replace(b"Paris", b"Lyon!"))


def make_bomb() -> bytes:
    """An archive of a few kilobytes whose only file has 80 MB."""
    size = 80 << 20
    return zstandard.ZstdCompressor(level=19).compress(member_header("pack/bundle.json", size) + b"x" * size)
