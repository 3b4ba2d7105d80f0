"""Links to an editor: only into the project, and never with a scheme that a browser runs."""

from __future__ import annotations

import pytest

from traceforge.ui.views.editor_link import editor_link, is_editor_template

VSCODE = "vscode://file/{path}:{line}"


@pytest.mark.parametrize(
    ("template", "is_valid"),
    [
        (VSCODE, True),
        ("idea://open?file={path}&line={line}", True),
        ("vscode://file/", False),
        ("javascript://{path}%0aalert(1)", False),
        ("JavaScript://{path}", False),
        ("javascript:{path}", False),
        ("data://{path}", False),
        ("https://evil.example/{path}", False),
        ("file://{path}", False),
        ("vscode://file/{path} x", False),
    ],
)
def test_a_template_is_a_link_of_an_editor(template: str, is_valid: bool) -> None:
    assert is_valid == is_editor_template(template)


def test_a_call_site_is_a_link_into_the_project() -> None:
    assert "vscode://file//work/my%20app/src/a%22b.py:12" == editor_link(VSCODE, "/work/my app", 'src/a"b.py', 12)
    assert "vscode://file//work/app/a.py:1" == editor_link(VSCODE, "/work/app", "/work/app/a.py", 0)


@pytest.mark.parametrize("file", ["", "../../etc/passwd", "/etc/passwd", "a/../../b.py", "..\\b.py", "."])
def test_a_file_outside_of_the_project_is_no_link(file: str) -> None:
    """A trace may come from somebody else."""
    assert "" == editor_link(VSCODE, "/work/app", file, 1)
