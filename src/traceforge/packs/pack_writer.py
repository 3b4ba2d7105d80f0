"""Create a pack: the same inputs give the same bytes.

Every JSON file is canonical text and one LF, and `run.json` states the digests of the others. With a key, the
signature is written next to the folder. A pack is verified in memory, written to a temporary folder and renamed, so
that there is never an invalid or incomplete one.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress

from traceforge.canon import JSON, JSONObject, digest_canonical_line, parse_json
from traceforge.errors import CannotWrite, InvalidFile, NotJSON, PathInUse
from traceforge.files import read_file, sync_folder, write_atomic
from traceforge.findings import Finding
from traceforge.modelio import InvalidRecording, model_io_hash, verify_session
from traceforge.packs.pack_archive import write_archive
from traceforge.packs.pack_contents import PackContents, signature_path
from traceforge.packs.pack_format import BUNDLE_FILE, LEDGER_FILE, MODEL_IO_FILE, RUN_FILE, write_member
from traceforge.packs.pack_signature import sign_files
from traceforge.packs.pack_verifier import PackReport, pack_findings, verify_contents


def create_pack(out: str, sources: Mapping[str, str], key_file: str = "") -> PackReport:
    """Create a pack at `out` from files by their name in the pack; `key_file` signs it.

    Raises:
        PathInUse: `out` exists.
        InvalidFile: the pack would be invalid; the error has every finding.
        NotJSON, CannotRead: a source is not readable.
        CannotSign: it cannot be signed.
        CannotWrite: it cannot be written.
    """
    if os.path.lexists(out):
        raise PathInUse(
            f"{out} already exists", hint="A pack is evidence and is never overwritten: choose another folder."
        )
    files = build_files(sources)
    report = verify_contents(PackContents(out, tuple(sorted(files)), files))
    if report.violations:
        raise InvalidFile(tuple(pack_findings(report)))
    signature = sign_files(files, key_file) if key_file else None
    _write_folder(out, files, signature)
    return report


def build_files(sources: Mapping[str, str]) -> dict[str, bytes]:
    """The bytes of every file, by its name in the pack.

    Raises:
        InvalidFile: the run states another digest than its file has.
        NotJSON, CannotRead: a source is not readable.
    """
    values: dict[str, JSON] = {}
    files: dict[str, bytes] = {}
    for name, path in sources.items():
        data = read_file(path)
        try:
            if name == LEDGER_FILE:
                files[name] = b"".join(write_member(parse_json(line)) for line in data.split(b"\n") if line.strip())
            else:
                values[name] = parse_json(data)
        except NotJSON as exc:
            raise exc.in_file(path) from None
    run = values.get(RUN_FILE)
    if isinstance(run, dict):
        values[RUN_FILE] = _with_references(run, values)
    return files | {name: write_member(value) for name, value in values.items()}


def _with_references(run: JSONObject, values: Mapping[str, JSON]) -> JSONObject:
    """The run with the digests of the other files; a digest that it states already must be correct."""
    stated: JSONObject = {}
    session, bundle = values.get(MODEL_IO_FILE), values.get(BUNDLE_FILE)
    if isinstance(session, dict) and not isinstance(verify_session(session), InvalidRecording):
        stated["model_io_hash"] = model_io_hash(session)
    if isinstance(bundle, dict) and isinstance(bundle.get("bundle_id"), str):
        stated["bundle"] = {"bundle_id": bundle["bundle_id"], "sha256": digest_canonical_line(bundle)}
    for name, value in stated.items():
        current = run.get(name)
        if current is not None and not _is_consistent(current, value):
            finding = Finding(RUN_FILE, f"$.{name}", "PK5" if name == "bundle" else "PK8", "states another digest")
            raise InvalidFile((finding._replace(hint="Remove the digest: it is written for you."),))
    return {**run, **stated}


def _is_consistent(stated: JSON, value: JSON) -> bool:
    """Whether a stated reference is correct; it may have fewer or more fields."""
    if isinstance(stated, dict) and isinstance(value, dict):
        return all(stated.get(name, expected) == expected for name, expected in value.items())
    return stated == value


def _write_folder(out: str, files: Mapping[str, bytes], signature: bytes | None) -> None:
    folder, name = os.path.split(os.path.normpath(out))
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        os.mkdir(temporary, 0o755)
        try:
            for member in sorted(files):
                write_atomic(os.path.join(temporary, member), files[member])
            if signature is not None:
                write_atomic(signature_path(out), signature)
            else:
                _remove_stale_signature(signature_path(out))
            os.rename(temporary, out)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(folder or ".")
    except OSError as exc:
        raise CannotWrite(out, exc) from None


def _remove_stale_signature(path: str) -> None:
    """Remove the signature of a pack that was here before."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def export_archive(contents: PackContents, out: str, *, overwrite: bool = False) -> int:
    """Write a valid pack as one archive; return its size in bytes.

    Raises:
        PathInUse: `out` exists, and `overwrite` is not set.
        CannotWrite: it cannot be written.
    """
    if not overwrite and os.path.lexists(out):
        raise PathInUse(f"{out} already exists", hint="Choose another file, or replace it with --force.")
    data = write_archive(contents.files, contents.signature)
    write_atomic(out, data)
    return len(data)
