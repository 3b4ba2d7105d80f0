"""Where a finding is, as a code host wants it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.canon import JSON, json_path
from traceforge.findings import Finding
from traceforge.report.finding_locations import FindingLocator, SourceLocation, json_lines

TREE = ".ai-snapshots/openai/a.json"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose project is a folder of it."""
    (tmp_path / ".git").mkdir()
    project = tmp_path / "services" / "quiz"
    (project / ".ai-snapshots" / "openai").mkdir(parents=True)
    (project / TREE).write_text('{\n  "version": "1",\n  "snapshots": [\n    {"hash": ""}\n  ]\n}\n')
    (project / "ask.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "path", "rule", "message", "place"),
    [
        ("ask.py:12:ask", "", "GT1", "m", SourceLocation("services/quiz/ask.py", 12)),
        ("ask.py:12 in ask", "", "GT4", "m", SourceLocation("services/quiz/ask.py", 12)),
        ("ask.py::test_a[x:1]", "", "GT2", "m", SourceLocation("services/quiz/ask.py", 0)),
        (TREE, "$.snapshots[0].hash", "SN3", "m", SourceLocation(f"services/quiz/{TREE}", 4)),
        (TREE, "", "PARSE", "extra data at line 3 column 4", SourceLocation(f"services/quiz/{TREE}", 3)),
        (TREE, "line 5 column 1", "RD1", "a key", SourceLocation(f"services/quiz/{TREE}", 5)),
        (".ai-snapshots/gone.json", "$", "AP6", "m", SourceLocation("services/quiz/.ai-snapshots/gone.json", 0)),
        ("(the command)", "", "IO", "m", SourceLocation()),
        ("", "", "IO", "m", SourceLocation()),
        ("../../../elsewhere.json", "", "IO", "m", SourceLocation()),
    ],
)
def test_a_location_is_a_file_of_the_repository_and_a_line(
    repository: Path, file: str, path: str, rule: str, message: str, place: SourceLocation
) -> None:
    """Relative to its root, however a finding names it; a file outside of it has no location."""
    project = repository / "services" / "quiz"

    assert place == FindingLocator(str(project), str(project)).locate(Finding(file, path, rule, message))


def test_file_names_are_relative_to_the_current_folder(repository: Path) -> None:
    """If `verify` runs in a subfolder, or a tree names its own files."""
    project = repository / "services" / "quiz"
    (project / "sub").mkdir()
    expected = SourceLocation(f"services/quiz/{TREE}", 2)

    assert expected == FindingLocator(str(project), str(project / "sub")).locate(
        Finding(f"../{TREE}", "$.version", "SN2", "m")
    )
    assert expected == FindingLocator(str(project), str(repository)).locate(
        Finding("openai/a.json", "$.version", "SN2", "m"), str(project / ".ai-snapshots")
    )


def test_without_a_repository_files_are_relative_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")

    assert SourceLocation("a.py", 3) == FindingLocator(str(tmp_path), str(tmp_path)).locate(
        Finding("a.py:3:f", "", "GT1", "m")
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_member_of_a_document_has_the_line_on_which_it_begins(value: JSON) -> None:
    """In any layout; here one member a line, so that a line identifies its member."""
    text = json.dumps(value, indent=1)

    lines = json_lines(text)

    assert {"$", *_paths(value, "$")} == lines.keys()
    rows = text.split("\n")
    for path, member in _paths(value, "$").items():
        written = json.dumps(member, indent=1).split("\n")[0]
        assert rows[lines[path] - 1].rstrip(",").endswith(written)


def _paths(value: JSON, path: str) -> dict[str, JSON]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    locations: dict[str, JSON] = {}
    for key, member in pairs:
        child = json_path(path, key)
        locations |= {child: member, **_paths(member, child)}
    return locations


@given(st.text(st.sampled_from('{}[]:,"\\ \nab1')))
def test_a_broken_document_has_the_lines_that_could_be_read(text: str) -> None:
    assert 1 == json_lines(text)["$"]
