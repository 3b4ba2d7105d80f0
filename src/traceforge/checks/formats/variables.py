"""`{{variables}}` in the texts of a check, filled with the values of a case.

In: a JSON value and the values of variables. Out: the value with them filled in. Never: evaluates anything, or fills
what a value brought: a value that has `{{name}}` in it stays as it is.

A text that is nothing but one variable becomes its value with its type: `"{{amount}}"` is a number, if the case has
one. Inside a longer text, a value is written as text, and an object or array as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceforge.canon import JSON, json_path
from traceforge.shape import ShapeProblem
from traceforge.wire.unified import json_text

_VALUE_CHARACTERS = 64  # What each value counts beside its text: what it takes in memory.
# A name is that of a column or a member: letters of any script, digits, and spaces inside of it.
_VARIABLE = re.compile(r"\{\{[ \t]*(\w(?:[\w .-]*[\w-])?)[ \t]*\}\}")

_NO_CASES = r"a variable, and the check has no cases; for the text itself: {type: regex, pattern: '\{\{name\}\}'}"


def fill_variables(value: JSON, variables: Mapping[str, JSON]) -> JSON:
    """Fill the variables in every text; those that are unknown stay."""
    if isinstance(value, dict):
        return {key: fill_variables(member, variables) for key, member in value.items()}
    if isinstance(value, list):
        return [fill_variables(item, variables) for item in value]
    return _fill_text(value, variables) if isinstance(value, str) else value


def measure_filled(value: JSON, variables: Mapping[str, JSON]) -> int:
    """How many characters the value has when its variables are filled, without filling them."""
    sizes = {name: len(_as_text(variable)) for name, variable in variables.items()}
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        total += _VALUE_CHARACTERS
        if isinstance(item, dict):
            pending += item.values()
            total += sum(map(len, item))
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str):
            total += len(item) + sum(sizes.get(match[1], 0) for match in _VARIABLE.finditer(item))
    return total


def find_unknown_variables(value: JSON, variables: Mapping[str, JSON], path: str = "$") -> Iterator[ShapeProblem]:
    """A problem for every variable without a value, and for every one in a key: keys are not filled."""
    if isinstance(value, dict):
        for key, member in value.items():
            if _VARIABLE.search(key):
                yield ShapeProblem(json_path(path, key), "a variable in a key, where none is filled")
            yield from find_unknown_variables(member, variables, json_path(path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from find_unknown_variables(item, variables, json_path(path, place))
    elif isinstance(value, str):
        for name in dict.fromkeys(_VARIABLE.findall(value)):
            if name not in variables:
                listed = ", ".join(sorted(variables)) or "none"
                yield ShapeProblem(path, f"the case has no variable {name}; it has: {listed}")


def find_variables(value: JSON, path: str = "$") -> Iterator[ShapeProblem]:
    """A problem for every variable in a check that has no cases, so that nothing would ever fill it."""
    for problem in find_unknown_variables(value, {}, path):
        yield ShapeProblem(problem.path, _NO_CASES)


def _fill_text(text: str, variables: Mapping[str, JSON]) -> JSON:
    if (match := _VARIABLE.fullmatch(text)) and match[1] in variables:
        return variables[match[1]]
    return _VARIABLE.sub(lambda match: _as_text(variables[match[1]]) if match[1] in variables else match[0], text)


def _as_text(value: JSON) -> str:
    return value if isinstance(value, str) else json_text(value)
