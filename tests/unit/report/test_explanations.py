"""What `traceforge help CODE` prints: every rule and error code, for a user who has no docs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import traceforge
from traceforge.audit.rule_catalogue import RULES
from traceforge.errors import all_errors
from traceforge.report.explanations import WIDTH, explanation_text, find_code, load_explanations, nearest_topics

SOURCE = Path(traceforge.__file__).parent
CODES = [*RULES, *(error.code for error in all_errors())]


def _messages(source: str) -> list[str]:
    """Every string of a module but its docstrings: what could reach a user."""
    tree = ast.parse(source)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


@pytest.mark.parametrize("code", CODES)
def test_every_rule_and_error_code_has_an_explanation(code: str) -> None:
    """It says what the code means, why it exists or what causes it, and what to do."""
    labels = {label for label, _ in load_explanations()[code].paragraphs}

    assert {"Do"} < labels
    assert {"Why", "Cause"} & labels


@pytest.mark.parametrize("code", [*CODES, "exit-codes"])
def test_an_explanation_fits_a_terminal_and_names_no_page(code: str) -> None:
    """Plain text of 80 columns: no link, and no path of a checkout."""
    text = explanation_text(code)

    assert text.startswith(f"{code}: ")
    assert WIDTH >= max(map(len, text.splitlines()))
    assert not [mark for mark in ("](", "docs/") if mark in text]


def test_a_code_is_found_in_any_case_and_its_neighbours_by_likeness() -> None:
    """`sn3` is SN3, and a code that does not exist leads to the nearest."""
    assert ("SN3", None) == (find_code("sn3"), find_code("SN99"))
    assert {"SN9", "SN1"} & set(nearest_topics("SN99", []))
    assert [] == nearest_topics("TF301", ["trace"])
    assert ["GT1", "GT2"] == nearest_topics("418", ["trace"])
    assert ["verify"] == nearest_topics("vrify", ["verify", "trace"])


def test_no_message_names_a_page_of_a_checkout() -> None:
    """An installed user has no docs folder: hints name `traceforge help CODE`."""
    named = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for source in [path.read_text(encoding="utf-8")]
        if "docs/" in source
        for text in _messages(source)
        if "docs/" in text and "docs/" != text
    ]

    assert [] == named
