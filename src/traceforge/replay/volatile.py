"""Volatile parts: parts of requests that a project declares to be irrelevant for matching.

A declaration is a JSON path, or an expression that matches inside texts. Declared parts are replaced by `[VOLATILE]`,
and every use of a declaration is counted for the reports. Nothing is volatile that is not declared.

A path is `$`, then `.name`, `["name"]`, `[3]`, `[*]` (every item) or `.*` (every member). The paths in the
explanation of an unmatched request can be declared as they are printed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from copy import copy
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from traceforge.canon import JSON, json_path, parse_json
from traceforge.errors import InvalidConfig, NotJSON
from traceforge.findings import Finding

if TYPE_CHECKING:
    from re2 import _Regexp

VOLATILE = "[VOLATILE]"
RULE = "CF1"
MATCH_SETTING = "match"

_STEP = re.compile(
    r'\.(?P<name>[A-Za-z_][\w-]*)|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<index>\d{1,6})\]|(?P<all>\[\*\]|\.\*)'
)
_HINT = "Write it as $.metadata.request_id, or $.messages[*].name for every item of a list."

Step = str | int | None  # a member, an item, or all of them


class VolatileReplaced(NamedTuple):
    """A value with `[VOLATILE]` in place of its volatile parts."""

    value: JSON
    use_counts: Counter[str]  # by declaration


def load_custom_patterns() -> ModuleType:
    """The module that checks and compiles expressions. Deferred: google-re2 is 6 % of the plugin's start."""
    from traceforge.redact import custom_patterns

    return custom_patterns


class VolatileRules:
    """Declarations that apply together.

    Raises:
        InvalidConfig: a path or an expression is invalid; the error names each.
    """

    def __init__(
        self,
        paths: Sequence[str] = (),
        patterns: Sequence[str] = (),
        *,
        where: str = "match",
        setting: str = MATCH_SETTING,
    ) -> None:
        findings = find_path_problems(paths, where, setting)
        self._patterns: list[tuple[str, _Regexp]] = []
        if patterns:
            custom_patterns = load_custom_patterns()
            findings += custom_patterns.pattern_findings(patterns, where, f"{setting}.ignore_patterns")
            if not findings:
                self._patterns = list(zip(patterns, custom_patterns.compile_patterns(patterns), strict=True))
        if findings:
            raise InvalidConfig(tuple(findings))
        self._paths = [(path, parse_path(path) or []) for path in paths]

    def __bool__(self) -> bool:
        return bool(self._paths or self._patterns)

    def list_tests(self, _scope: str) -> tuple[str, ...]:
        """The names under which declarations for single tests apply to a test: none, where all hold everywhere."""
        return ()

    def find_rules(self, _tests: tuple[str, ...], _model: str) -> VolatileRules:
        """The declarations for a request of this model, in a test with these names (`list_tests`)."""
        return self

    def replace_parts(self, value: JSON) -> VolatileReplaced:
        """Replace the volatile parts of a value; one without such parts is returned as it is."""
        use_counts: Counter[str] = Counter()
        for path, steps in self._paths:
            value, times = _replace_at(value, steps)
            if times:
                use_counts[path] += times
        if self._patterns:
            value = self._replace_in_texts(value, use_counts)
        return VolatileReplaced(value, use_counts)

    def skip_items(self, name: str, count: int) -> VolatileRules:
        """The same declarations for a value in whose member of this name the first items are left out."""
        if not count or not self._paths:
            return self
        moved = copy(self)
        moved._paths = [
            (path, remaining) for path, steps in self._paths if (remaining := _skip(steps, name, count)) is not None
        ]
        return moved

    def find_matches(self, text: str) -> list[str]:
        """The parts of a text that the expressions match."""
        data = text.encode("utf-8", "surrogatepass")
        matches = [match[0] for _, pattern in self._patterns for match in pattern.finditer(data)]
        return [match.decode("utf-8", "surrogatepass") for match in matches]

    def is_volatile(self, path: str) -> bool:
        """Whether a path is declared, or lies below a declared path."""
        if not self._paths:
            return False
        place = parse_path(path) or []
        return any(_leads_to(steps, place) for _, steps in self._paths)

    def _replace_in_texts(self, value: JSON, use_counts: Counter[str]) -> JSON:
        if isinstance(value, str):
            return self._replace_in_text(value, use_counts)
        if isinstance(value, dict):
            return {key: self._replace_in_texts(child, use_counts) for key, child in value.items()}
        if isinstance(value, list):
            return [self._replace_in_texts(child, use_counts) for child in value]
        return value

    def _replace_in_text(self, text: str, use_counts: Counter[str]) -> str:
        data, total = text.encode("utf-8", "surrogatepass"), 0
        for source, pattern in self._patterns:
            data, times = pattern.subn(VOLATILE.encode(), data)
            if times:
                use_counts[source] += times
                total += times
        return data.decode("utf-8", "surrogatepass") if total else text


def find_path_problems(paths: Sequence[str], where: str, setting: str = MATCH_SETTING) -> list[Finding]:
    """Every invalid path; `where` is the file that declares them, `setting` what they are part of."""
    return [
        Finding(
            where,
            json_path(f"$.{setting}.ignore_paths", place),
            RULE,
            f"{setting}.ignore_paths[{place}] is not a JSON path: {path!r}",
            _HINT,
        )
        for place, path in enumerate(paths)
        if not parse_path(path)
    ]


def parse_path(path: str) -> list[Step] | None:
    """The steps of a path; None where it is invalid. The root alone has no steps, and cannot be declared."""
    steps: list[Step] = []
    position = 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return None
        steps.append(_read_step(match))
        position = match.end()
    return steps if path.startswith("$") else None


def _read_step(match: re.Match[str]) -> Step:
    if match["all"]:
        return None
    if match["quoted"] is not None:
        try:
            return str(parse_json(match["quoted"].encode()))
        except (NotJSON, UnicodeEncodeError):
            return match["quoted"][1:-1]
    return match["name"] or int(match["index"])


def _skip(steps: list[Step], name: str, count: int) -> list[Step] | None:
    """The steps to the same place without the first items; None: it is in one of them."""
    if len(steps) < 2 or steps[0] not in (None, name) or not isinstance(steps[1], int):
        return steps
    return [steps[0], steps[1] - count, *steps[2:]] if steps[1] >= count else None


def _leads_to(steps: Sequence[Step], place: Sequence[Step]) -> bool:
    return len(steps) <= len(place) and all(
        step is None or step == at for step, at in zip(steps, place, strict=False)
    )


def _replace_at(value: JSON, steps: Sequence[Step]) -> tuple[JSON, int]:
    """Replace every value that the steps lead to; return the new value and the number of replacements."""
    if not steps:
        return VOLATILE, 1
    step, remaining = steps[0], steps[1:]
    if isinstance(value, dict):
        keys = list(value) if step is None else [step] if isinstance(step, str) and step in value else []
        members = {key: _replace_at(value[key], remaining) for key in keys}
        times = sum(count for _, count in members.values())
        return ({**value, **{key: new for key, (new, _) in members.items()}}, times) if times else (value, 0)
    if isinstance(value, list):
        places = range(len(value)) if step is None else [step] if isinstance(step, int) and step < len(value) else []
        items = {place: _replace_at(value[place], remaining) for place in places}
        times = sum(count for _, count in items.values())
        if not times:
            return value, 0
        return [items[place][0] if place in items else child for place, child in enumerate(value)], times
    return value, 0
