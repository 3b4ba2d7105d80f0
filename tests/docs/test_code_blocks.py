"""Every code block of the documentation is run, or is of a kind that is shown and never run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from pages import (
    LANGUAGES,
    SAMPLES,
    Block,
    Page,
    all_pages,
    commands,
    is_run_here,
    is_shown_output,
    needs_model,
    open_terminal,
    run_python,
    write_file,
)

from traceforge.canon import parse_json
from traceforge.chat.execution_trace import read_execution_trace
from traceforge.checks.formats.check_file import read_check_file
from traceforge.context.model.context_snapshot import read_context_snapshot
from traceforge.match_key import KeyIdShape
from traceforge.modelio import read_session
from traceforge.packs.pack_format import read_run
from traceforge.snapshots.formats.approval_format import read_approval
from traceforge.snapshots.formats.raw_response import read_raw_response
from traceforge.snapshots.formats.snapshot_format import read_document
from traceforge.snapshots.formats.snapshot_manifest import Manifest
from traceforge.traces.trace_format import read_trace

PAGES = all_pages()
RUN = frozenset({"console", "python"})
READERS: dict[str, Callable[[bytes], object]] = {
    "approval": read_approval,
    "check": lambda data: read_check_file(data, ".ai-checks/page.yaml"),
    "context-snapshot": read_context_snapshot,
    "execution-trace": read_execution_trace,
    "manifest": lambda data: msgspec.convert(parse_json(data), Manifest),
    "match-key": lambda data: msgspec.convert(parse_json(data), KeyIdShape),
    "modelio": read_session,
    "pack-run": read_run,
    "snapshot": read_document,
    "trace": read_trace,
    "raw-response": read_raw_response,
}


def _has_code(page: Page) -> bool:
    return any(block.language in RUN for block in page.blocks)


# The demo runs the steps of the first gate in every run; the others take longest, and have tests of their own.
LONG_PAGES = frozenset({
    "chat-with-a-trace.md", "check-a-pack.md", "check-a-recording.md", "compare-models.md", "config.md",
    "first-gate.md", "first-verification.md", "follow-a-session.md", "format-trace.md", "gate-bedrock.md", "json.md",
    "keep-context.md",
    "keep-traces-small.md", "make-a-pack.md", "migrate-snapshots.md", "purge.md", "read-traces.md",
    "record-a-session.md", "record-any-command.md", "redact.md", "start-a-project.md", "verify-in-ci.md",
})  # fmt: skip


def _with_code() -> list[object]:
    """The pages that take longest run in `make test-all`."""
    return [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if is_long else [])
        for page in PAGES
        if _has_code(page)
        for is_long in [needs_model(page) or page.path.name in LONG_PAGES]
    ]


@pytest.mark.parametrize("page", _with_code())
def test_the_blocks_of_a_page_print_what_it_shows(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run from top to bottom in an empty folder; each command ends with 0."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}

    with patch.dict(os.environ), open_terminal(page, tmp_path) as terminal:  # A block may set variables.
        for block in page.blocks:
            write_file(block, tmp_path)
            if is_run_here(block):
                run_python(block, page, namespace)
            elif block.language == "console":
                for command in commands(block):
                    code, output = terminal.run(command)
                    where = f"{page.name}, block at line {block.line}: $ {command.script}"
                    assert is_shown_output(command.output, output), f"{where}\n{output}"
                    assert 0 == code, f'{where}: show it with ; echo "exit $?"'


def test_no_page_has_a_block_of_an_unknown_kind() -> None:
    """A misspelt language or attribute would silently leave a block unrun."""
    odd = [
        (page.name, block.line, block.language, block.attributes)
        for page in PAGES
        for block in page.blocks
        if block.language not in LANGUAGES or not block.attributes.keys() <= {"file", "as"}
    ]

    assert [] == odd


def test_every_console_block_begins_with_a_command() -> None:
    consoles = [(page.name, block) for page in PAGES for block in page.blocks if block.language == "console"]

    assert [] == [(name, block.line) for name, block in consoles if not commands(block)]


def _documents() -> list[object]:
    return [
        pytest.param(block, id=f"{page.name}:{block.line}")
        for page in PAGES
        for block in page.blocks
        if "as" in block.attributes
    ]


@pytest.mark.parametrize("block", _documents())
def test_a_complete_document_is_accepted_by_its_reader(block: Block) -> None:
    """A block with `as=KIND`."""
    READERS[block.attributes["as"]](block.text.encode())


def test_every_format_page_has_a_complete_document() -> None:
    formats = {
        page.name: {block.attributes["as"] for block in page.blocks if "as" in block.attributes}
        for page in PAGES
        if page.path.name.startswith("format-")
    }

    assert [] == [name for name, kinds in formats.items() if not kinds]
    assert set(READERS) == set().union(*formats.values())


def test_every_folder_of_samples_belongs_to_a_page_that_is_run() -> None:
    used = {page.name.removesuffix(".md") for page in PAGES if _has_code(page)}
    folders = {path.parent.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob(".ai-snapshots")}

    assert folders <= used
