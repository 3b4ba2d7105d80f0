"""Write the files that are generated from the code and the docs: schemas, pages of docs/reference, `traceforge help`.

`make docs` runs this; `--check` writes nothing and fails if a file is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import client_methods
import dialect_tables
import msgspec
import reference_pages

from traceforge.canon import JSON, ecmascript_bytes
from traceforge.chat.execution_trace import ExecutionTrace
from traceforge.checks.formats.check_types import CHECK_FILE_TYPES, CaseFile, CaseTraces, CheckRequest
from traceforge.context.model.context_snapshot import ContextSnapshot
from traceforge.conversion import build_schemas
from traceforge.modelio.recording_format import ModelIOSession
from traceforge.packs.pack_format import LedgerEntry, PackRun
from traceforge.schemas import NAMES
from traceforge.snapshots.formats.approval_format import Approval
from traceforge.snapshots.formats.snapshot_format import SnapshotDocument
from traceforge.snapshots.formats.snapshot_manifest import Manifest
from traceforge.traces.trace_format import TraceShape
from traceforge.web.openapi_document import build_document

ROOT = Path(__file__).resolve().parent.parent
TYPES: dict[str, Any] = {
    "approval": Approval,
    "context-snapshot": ContextSnapshot,
    "execution-trace": ExecutionTrace,
    "manifest": Manifest,
    "modelio": ModelIOSession,
    "pack-ledger-entry": LedgerEntry,
    "pack-run": PackRun,
    "snapshot": SnapshotDocument,
    "trace": TraceShape,
}


def schema_text(name: str) -> bytes:
    """The JSON Schema of one format."""
    schema = msgspec.json.schema(TYPES[name])
    if name == "snapshot":  # "messages, or prompt" of the specification, which a type cannot express
        request = schema["$defs"]["SnapshotRequest"]
        request["oneOf"] = [{"required": ["messages"]}, {"required": ["prompt"]}]
        request["if"] = {"properties": {"max_tokens": {"const": 0}}, "required": ["max_tokens"]}
        listed = {"contains": {"const": "max_tokens"}}
        request["then"] = {"properties": {"declared": listed}, "required": ["declared"]}
    return _with_head(name, schema)


def check_schema_text() -> bytes:
    """The JSON Schema of a check file: one check, or a list of them."""
    shapes, components = build_schemas((*CHECK_FILE_TYPES, CheckRequest, CaseFile, CaseTraces), "#/$defs/{name}")
    fields = components["Check"]["properties"]
    _, _, fields["request"], *data_sets = shapes
    fields["cases"]["anyOf"] = [{"type": "array", "minItems": 1, "items": {"type": "object"}}, *data_sets]
    return _with_head("check", {"anyOf": list(shapes[:2]), "$defs": components})


def _with_head(name: str, schema: dict[str, Any]) -> bytes:
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:traceforge:schema:{name}:1.0.0",
        "title": f"TraceForge {name}",
    }
    return ecmascript_bytes({**head, **schema}, indent=2) + b"\n"


def openapi_text() -> bytes:
    """The OpenAPI document of the context store, with a line for each path and schema: such a diff can be read."""
    document = build_document()
    components = {name: value for name, value in document["components"].items() if name != "schemas"}
    schemas = document["components"]["schemas"]
    head = {name: value for name, value in document.items() if name not in ("paths", "components")}
    parts = [json.dumps(head)[:-1] + ', "paths": {']
    parts.append(
        ",\n".join(f"{json.dumps(path)}: {json.dumps(methods)}" for path, methods in document["paths"].items())
    )
    parts.append('}, "components": ' + json.dumps(components)[:-1] + ', "schemas": {')
    parts.append(",\n".join(f"{json.dumps(name)}: {json.dumps(schema)}" for name, schema in schemas.items()))
    return ("\n".join(parts) + "\n}}}\n").encode()


_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_ROW = re.compile(r"^\| (\d+) \| ([^|]+?) \|", re.MULTILINE)


def explanations() -> bytes:
    """The entries of the pages about rules, errors and exit codes, for `traceforge help CODE`."""
    reference = ROOT / "docs" / "reference"
    entries = {
        **_entries((reference / "rules.md").read_text(encoding="utf-8"), "###"),
        **_entries((reference / "errors.md").read_text(encoding="utf-8"), "##"),
    }
    page = (reference / "exit-codes.md").read_text(encoding="utf-8")
    introduction = "Every command uses the same exit codes."
    rows: list[JSON] = [[code, _plain(meaning)] for code, meaning in _ROW.findall(page)]
    about_command = next(part for part in page.split("\n\n") if part.startswith("`run`, "))
    entries["exit-codes"] = {"sentence": introduction, "paragraphs": [*rows, ["", _plain(about_command)]]}
    return ecmascript_bytes(entries, indent=2) + b"\n"


def _entries(page: str, mark: str) -> dict[str, JSON]:
    entries: dict[str, JSON] = {}
    for section in page.split(f"\n{mark} ")[1:]:
        name, _, body = section.partition("\n")
        if " " in name.strip():  # a heading above rules
            continue
        parts = [part for part in re.split(r"\n(?=- )|\n\n", body.split("\n#")[0].strip()) if part.strip()]
        paragraphs = [_labelled(_plain(part)) for part in parts]
        label, sentence = paragraphs.pop(0)
        assert label in ("", "Meaning"), name
        labelled: list[JSON] = [[label, text] for label, text in paragraphs]
        entries[name] = {"sentence": sentence[0].upper() + sentence[1:], "paragraphs": labelled}
    return entries


def _labelled(text: str) -> tuple[str, str]:
    """`- Do: this` as a label and a text; a paragraph has no label."""
    if not text.startswith("- "):
        return "", text
    label, _, content = text.removeprefix("- ").partition(": ")
    return label, content


def _plain(text: str) -> str:
    """Markdown as one line of text; a link becomes its words."""
    return " ".join(_LINK.sub(r"\1", text).split())


def files() -> dict[Path, bytes]:
    """Every generated file, with its content."""
    assert set(TYPES) == set(NAMES)
    generated = {ROOT / "src/traceforge/schemas" / f"{name}.json": schema_text(name) for name in NAMES}
    generated[ROOT / "src/traceforge/schemas/check.json"] = check_schema_text()
    generated[ROOT / "src/traceforge/report/explanations.json"] = explanations()
    reference = ROOT / "docs" / "reference"
    generated |= {reference / name: text.encode() for name, text in reference_pages.cli_pages().items()}
    generated[reference / "python-api.md"] = reference_pages.python_page().encode()
    generated[reference / "openapi.json"] = openapi_text()
    generated[reference / "http-api.md"] = reference_pages.http_page(json.loads(openapi_text())).encode()
    generated[ROOT / "src/traceforge/wire/dialect_index.py"] = dialect_tables.index_text()
    generated[ROOT / "src/traceforge/capture/hook/dialect_paths.py"] = dialect_tables.hook_text()
    generated[ROOT / "src/traceforge/context/api/_generated/client_methods.py"] = client_methods.module_text()
    return generated


def main() -> None:
    stale = [path for path, data in files().items() if not path.exists() or path.read_bytes() != data]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: run make docs")  # noqa: T201
        sys.exit(bool(stale))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files()[path])
        print(f"wrote {path.relative_to(ROOT)}")  # noqa: T201


if __name__ == "__main__":
    main()
