"""The list of rules is the list of rules."""

from __future__ import annotations

import ast
import re

from support.corpus import PROJECT
from traceforge.audit.rule_catalogue import NEVER_REPORTED, RULES

RULE_NAME = r"(?:SN|AP|GT|DR|PD|MF|TR|MI|PK|CS|CK|ET|RD|CF|MK)[0-9]+|SCHEMA|IO|PARSE"
RULE = re.compile(rf"(?:{RULE_NAME})\Z")
MAY_NAME_A_RULE = re.compile(rf"\b(?:{RULE_NAME})\b")  # Four of five modules need not be parsed.


def test_every_rule_that_a_check_names_is_listed_and_no_other() -> None:
    """A rule in the code has its sentence, and a sentence has its rule in the code."""
    used = set()
    for file in (PROJECT / "src" / "traceforge").rglob("*.py"):
        source = file.read_text()
        if file.name == "rule_catalogue.py" or not MAY_NAME_A_RULE.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and RULE.match(node.value):
                used.add(node.value)

    assert set(RULES) - NEVER_REPORTED == used
