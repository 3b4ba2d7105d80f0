"""A pack as lines, or as JSON.

In: the files of a valid pack and the report about them. Out: lines, or JSON. Never: a value of the pack, except the
few that identify it.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.canon import JSON, JSONObject, digest_bytes, parse_json
from traceforge.findings import printable_name
from traceforge.packs.pack_contents import PackContents
from traceforge.packs.pack_format import RUN_FILE
from traceforge.packs.pack_verifier import PackReport
from traceforge.report.text_format import bytes_text, table
from traceforge.terminal import one_line

_NAMES = ("run_id", "kernel_result_kind", "decision", "model_mode", "started_at", "completed_at", "kernel_version")


def pack_json(contents: PackContents, report: PackReport) -> JSONObject:
    """The facts that identify a pack, its files with size and digest, and the references that were checked."""
    run = parse_json(contents.files[RUN_FILE])
    assert isinstance(run, dict)
    files: list[JSON] = [
        {"name": name, "size": len(data), "sha256": digest_bytes(data)}
        for name, data in sorted(contents.files.items())
    ]
    return {
        "pack_path": report.pack,
        "run": {name: run.get(name) for name in _NAMES},
        "files": files,
        "reference_checks": [reference.to_json() for reference in report.references],
        "signature": report.signature.to_json() if report.signature is not None else None,
    }


def pack_lines(contents: PackContents, report: PackReport) -> Iterator[str]:
    """The facts of `pack_json` as lines."""
    run = parse_json(contents.files[RUN_FILE])
    assert isinstance(run, dict)
    for name in _NAMES:
        value = run.get(name)
        text = printable_name(value) if isinstance(value, str) else f"({type(value).__name__})"
        yield f"{name.replace('_', ' ').ljust(20)}{text}"
    rows = [
        (one_line(name), bytes_text(len(data)), digest_bytes(data)) for name, data in sorted(contents.files.items())
    ]
    yield from table(("FILE", "SIZE", "SHA-256"), rows)
    for reference in report.references:
        yield one_line(f"{reference.field} of {reference.source} is that of {reference.target}")
    yield f"signed by {one_line(report.signature.key)}" if report.signature is not None else "not signed"
