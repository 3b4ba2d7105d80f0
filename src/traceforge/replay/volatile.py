"""Volatile parts: what may differ between two requests that are the same.

In: a JSON value and what a project has declared: JSON paths, and expressions that match inside texts. Out: the value
with those parts replaced by `[VOLATILE]`, and which declarations were used, so that every report can say so. Never:
guesses: what is not declared counts.

A path is `$`, then `.name`, `["name"]`, `[3]`, `[*]` (every item) or `.*` (every member): what a miss prints can be
declared as it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from traceforge.canon import JSON, json_path, parse_json
from traceforge.errors import InvalidConfig, NotJSON
from traceforge.findings import Finding

if TYPE_CHECKING:
    from re2 import _Regexp

VOLATILE = "[VOLATILE]"
RULE = "CF1"

_STEP = r'\.(?P<name>[A-Za-z_][\w-]*)|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<index>\d{1,6})\]|(?P<all>\[\*\]|\.\*)'
_HINT = "Write it as $.messages[0].content, with [*] for every item."

Step = str | int | None  # a member, an item, or all of them


class VolatileReplaced(NamedTuple):
    """A value without its volatile parts, and how often each declaration was used."""

    value: JSON
    use_counts: Counter[str]


class VolatileRules:
    """What a project has declared as volatile.

    Raises:
        InvalidConfig: a path or an expression that cannot be read; each is named.
    """

    def __init__(self, paths: Sequence[str] = (), patterns: Sequence[str] = (), *, where: str = "match") -> None:
        findings = find_declaration_problems(paths, patterns, where)
        if findings:
            raise InvalidConfig(tuple(findings))
        self._paths = [(path, parse_path(path) or []) for path in paths]
        self._patterns: list[tuple[str, _Regexp]] = []
        if patterns:
            from traceforge.redact.custom_patterns import compile_patterns

            self._patterns = list(zip(patterns, compile_patterns(patterns), strict=True))

    def __bool__(self) -> bool:
        return bool(self._paths or self._patterns)

    def replace_parts(self, value: JSON) -> VolatileReplaced:
        """The value without its volatile parts; the same object where it has none."""
        use_counts: Counter[str] = Counter()
        for path, steps in self._paths:
            value, times = _replace_at(value, steps)
            if times:
                use_counts[path] += times
        if self._patterns:
            value = self._replace_in_texts(value, use_counts)
        return VolatileReplaced(value, use_counts)

    def is_volatile(self, path: str) -> bool:
        """Does a place stand at or below a path that was declared?"""
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


def find_declaration_problems(paths: Sequence[str], patterns: Sequence[str], where: str) -> list[Finding]:
    """What is wrong with declarations; `where` names the file they stand in."""
    findings = [
        Finding(
            where,
            json_path("$.match.ignore_paths", place),
            RULE,
            f"match.ignore_paths[{place}] is no path: {path!r}",
            _HINT,
        )
        for place, path in enumerate(paths)
        if not parse_path(path)
    ]
    if not patterns:
        return findings
    from traceforge.redact.custom_patterns import pattern_findings

    return [*findings, *pattern_findings(patterns, where, "match.ignore_patterns")]


def parse_path(path: str) -> list[Step] | None:
    """The steps of a path; None where it is none. The root alone has no steps, and is none to declare."""
    steps: list[Step] = []
    step = re.compile(_STEP)  # here: most projects declare none
    place = 1
    while place < len(path):
        match = step.match(path, place)
        if match is None:
            return None
        steps.append(_read_step(match))
        place = match.end()
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


def _leads_to(steps: Sequence[Step], place: Sequence[Step]) -> bool:
    return len(steps) <= len(place) and all(
        step is None or step == at for step, at in zip(steps, place, strict=False)
    )


def _replace_at(value: JSON, steps: Sequence[Step]) -> tuple[JSON, int]:
    """Put VOLATILE at every place the steps lead to; how many there were."""
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
