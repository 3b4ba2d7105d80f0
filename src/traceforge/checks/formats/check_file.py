"""The reader of check files.

In: the bytes of `.ai-checks/*.yaml`. Out: its checks, each with its line, or every broken rule with line and column.
Never: passes over a key that it does not know, or over a check that it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, json_path
from traceforge.checks.formats.assertion_types import ASSERTION_TYPES, Fixtures
from traceforge.checks.formats.check_types import (
    SOURCES,
    CaseFile,
    CaseTraces,
    Check,
    CheckList,
    CheckTemplate,
    find_check_problems,
)
from traceforge.checks.formats.variables import fill_variables, find_unknown_variables, find_variables
from traceforge.conversion import convert
from traceforge.errors import InvalidFile
from traceforge.findings import PARSE, Finding, nearest_name
from traceforge.located_yaml import LocatedValue, load_located_yaml
from traceforge.shape import ShapeProblem, find_problems
from traceforge.yaml_reader import InvalidYaml, Mark

CHECK_RULE = "CK1"
FILE_BYTES_MAX = 1 << 20
TRACE_VARIABLE = "trace_id"  # of a case that is a recorded call

_NOT_FILLED = ("cases", "name", "tags")  # They are the same for every case.

_REFERENCE_HINT = "`traceforge schema check` lists the fields of a check file."
_YAML_HINT = "Repair the file at that place. Text with special characters belongs in quotation marks."


class CheckDefinition(NamedTuple):
    """One check of a file, as it was written. `path` is its JSON path in the file."""

    file: str
    path: str
    source: LocatedValue

    @property
    def value(self) -> JSONObject:
        """The check as JSON, with variables where it has cases."""
        return cast("JSONObject", self.source.find_value(self.path))

    @property
    def mark(self) -> Mark:
        """The line and column at which the check begins."""
        return self.source.find_mark(self.path)

    @property
    def name(self) -> str:
        return str(self.value["name"])

    @property
    def tags(self) -> list[str]:
        return [str(tag) for tag in cast("list[JSON]", self.value.get("tags", []))]

    @property
    def cases(self) -> CaseFile | CaseTraces | list[JSONObject] | None:
        """The data set; None for a check without cases."""
        cases = self.value.get("cases")
        if cases is None or isinstance(cases, list):
            return cast("list[JSONObject] | None", cases)
        return convert(cases, CaseTraces) if "traces" in cast("JSONObject", cases) else convert(cases, CaseFile)

    @property
    def cases_mark(self) -> Mark:
        """The line and column at which its data set is named."""
        return self.source.find_mark(json_path(self.path, "cases"))

    def find_assertion_mark(self, index: int) -> Mark:
        """The line and column at which an assertion begins."""
        return self.source.find_mark(json_path(f"{self.path}.assertions", index))


def read_check_file(data: bytes, file: str) -> list[CheckDefinition]:
    """Read a check file.

    Raises:
        MissingExtra: PyYAML is not installed.
        InvalidFile: it is not YAML, or breaks a rule; the error holds every finding.
    """
    try:
        source = load_located_yaml(data)
    except InvalidYaml as exc:
        raise InvalidFile((_parse_finding(file, exc),)) from None
    if not isinstance(source.value, dict):
        message = (
            "the file is empty" if source.value is None else "must be a mapping: one check, or several under tests"
        )
        raise InvalidFile((Finding(file, Mark(1, 1).text, CHECK_RULE, message, _REFERENCE_HINT),))
    findings = _list_findings(_find_file_problems(source.value), source, file)
    if findings:
        raise InvalidFile(tuple(findings))
    definitions = [CheckDefinition(file, path, source) for path in _list_check_paths(source.value)]
    if findings := list(_find_repeated_names(definitions)):
        raise InvalidFile(tuple(findings))
    return definitions


def make_check(definition: CheckDefinition, variables: Mapping[str, JSON] | None, case: str) -> Check:
    """The check of a definition, filled with the variables of a case; None where it has no cases.

    Raises:
        InvalidFile: the check breaks a rule with these values.
    """
    value, problems = definition.value, list[ShapeProblem]()
    if variables is not None:
        template = {name: member for name, member in value.items() if name not in _NOT_FILLED}
        problems = list(find_unknown_variables(template, variables))
        unfilled = {name: value[name] for name in _NOT_FILLED if name in value and name != "cases"}
        if isinstance(definition.cases, CaseTraces) and not any(name in value for name in SOURCES):
            unfilled["trace_id"] = variables[TRACE_VARIABLE]
        value = {**unfilled, **cast("JSONObject", fill_variables(template, variables))}
    problems = problems or _find_problems_of_check(value)
    if problems:
        raise InvalidFile(tuple(list_check_findings(definition, problems, case)))
    return convert(value, Check)


def list_check_findings(definition: CheckDefinition, problems: Iterable[ShapeProblem], case: str) -> list[Finding]:
    """The findings of problems in a check, whose paths begin with `$`, at their lines in the file."""
    suffix = f" (in {case})" if case else ""
    moved = [ShapeProblem(definition.path + problem.path[1:], problem.message + suffix) for problem in problems]
    return _list_findings(moved, definition.source, definition.file)


def _find_file_problems(value: JSONObject) -> list[ShapeProblem]:
    tests = value.get("tests")
    if "tests" not in value:
        return _find_problems_of_definition(value, "$")
    problems = [ShapeProblem(json_path("$", name), "unknown field beside tests") for name in value if name != "tests"]
    if not isinstance(tests, list) or not tests:
        return [*problems, ShapeProblem("$.tests", "must be an array of at least one check")]
    for place, item in enumerate(tests):
        problems += _find_problems_of_definition(item, json_path("$.tests", place))
    return problems


def _find_problems_of_definition(value: JSON, path: str) -> list[ShapeProblem]:
    is_template = isinstance(value, dict) and "cases" in value
    problems = _find_problems_of_template(value) if is_template else _find_problems_without_cases(value)
    return [ShapeProblem(path + problem.path[1:], problem.message) for problem in problems]


def _find_problems_of_check(value: JSON) -> list[ShapeProblem]:
    return find_problems(value, Check) or find_check_problems(convert(value, Check))


def _find_problems_without_cases(value: JSON) -> list[ShapeProblem]:
    """The answer that is looked for may have double braces; an assertion with them was meant to be filled."""
    problems = _find_problems_of_check(value)
    if not problems and isinstance(value, dict):
        problems = list(find_variables(value["assertions"], "$.assertions"))
    return problems


def _find_problems_of_template(value: JSON) -> list[ShapeProblem]:
    problems = find_problems(value, CheckTemplate)
    cases = value.get("cases") if isinstance(value, dict) else None
    if not problems and isinstance(cases, dict):
        kind = CaseTraces if "traces" in cases else CaseFile
        problems = [
            ShapeProblem("$.cases" + problem.path[1:], problem.message)
            for problem in find_problems(cast("JSON", cases), kind)
        ]
    return problems


def _list_check_paths(value: JSONObject) -> Iterable[str]:
    tests = value.get("tests")
    return [json_path("$.tests", place) for place in range(len(tests))] if isinstance(tests, list) else ["$"]


def _find_repeated_names(definitions: Iterable[CheckDefinition]) -> Iterator[Finding]:
    first_marks: dict[str, Mark] = {}
    for definition in definitions:
        if first := first_marks.get(definition.name):
            message = f"the check at line {first.line} has the same name: {definition.name!r}"
            yield Finding(definition.file, definition.mark.text, CHECK_RULE, message, "Give each check its own name.")
        first_marks.setdefault(definition.name, definition.mark)


def _list_findings(problems: Iterable[ShapeProblem], source: LocatedValue, file: str) -> list[Finding]:
    return [
        Finding(
            file,
            source.find_mark(problem.path).text,
            CHECK_RULE,
            f"{problem.path.removeprefix('$.')} {problem.message}",
            _find_hint(problem, source),
        )
        for problem in problems
    ]


def _find_hint(problem: ShapeProblem, source: LocatedValue) -> str:
    """What to write instead of an unknown field or assertion type: the known name that is nearest."""
    parent, _, name = problem.path.rpartition(".")
    if problem.message.startswith("unknown field"):
        known_names = _list_known_fields(source.find_value(parent), parent)
    elif name == "type" and problem.message.startswith("must be '"):
        known_names, name = [*ASSERTION_TYPES], str(source.find_value(problem.path))
    else:
        return _REFERENCE_HINT
    nearest = nearest_name(name, known_names, 0.5)
    return f"Did you mean {nearest}?" if nearest else f"Known here: {', '.join(known_names)}."


def _list_known_fields(parent: JSON, path: str) -> list[str]:
    kind: type[Struct] = Check
    if isinstance(parent, dict) and isinstance(parent.get("type"), str) and ".assertion" in path:
        kind = ASSERTION_TYPES.get(str(parent["type"]), Check)
        return ["type", *kind.__struct_fields__]
    if path.endswith((".fixtures", ".cases")):
        kind = Fixtures if path.endswith(".fixtures") else CaseTraces
    elif isinstance(parent, dict) and "tests" in parent:
        kind = CheckList
    return [*kind.__struct_fields__]


def _parse_finding(file: str, error: InvalidYaml) -> Finding:
    place = error.mark.text if error.mark is not None else ""
    return Finding(file, place, PARSE, f"not YAML of a check file: {error.problem}", _YAML_HINT)
