"""Lists in the configuration whose entries may have `*`: which tests they name, and which entries mean everything.

In: settings as they were parsed, valid or not. Out: the place of each entry that means everything, which would switch
off what its list is about, and what is wrong with it; whether a list names a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from traceforge.canon import JSON, JSONObject, json_path

# Lists whose entries are names, paths or patterns.
LISTS = (
    "allow", "hosts", "callsite.skip", "match.ignore_paths", "match.headers", "match.ignore_headers",
    "test.allow_programs", "test.ignore_hosts", "test.may_skip", "test.may_repeat", "test.may_vary",
    "test.cassette_tests",
)  # fmt: skip
TEST_LISTS = ("test.may_skip", "test.may_repeat", "test.may_vary", "test.cassette_tests", "test.match")
# Tests that have nothing in common but what all tests have.
_LETTER_LISTS = ("allow", "test.ignore_hosts")  # A name of one letter between wildcards would be most names.
# Models that have nothing in common but what most models have.
_ANY_MODELS = ("gpt-4.1", "claude-opus-4-5", "us.amazon.nova-lite-v1:0", "org/sub-b_7.x-2")
_BRACKETS = re.compile(r"\[!?\]?[^\]]*\]")  # as `fnmatch` reads them
_ANY_TESTS = ("test_a.py::test_b", "tests/unit/test_k.py::TestM::test_v", "src/zoo/test_q.py::test_x[1-z]")


def names_test(patterns: Iterable[str], scope: str) -> bool:
    """Whether a list, such as `test.may_skip`, names a test: by its node id, or with a pattern of it."""
    return any(scope == pattern or fnmatchcase(scope, pattern) for pattern in patterns)


def find_wildcards(values: JSONObject) -> Iterator[tuple[str, str]]:
    """The path of each entry that means everything, and a message."""
    for setting in LISTS:
        section, _, name = setting.rpartition(".")
        holder = values.get(section) if section else values
        entries = holder.get(name) if isinstance(holder, dict) else None
        yield from _check_list(entries, setting, setting)
    models, test = values.get("models"), values.get("test")
    for pattern, rule in (models if isinstance(models, dict) else {}).items():
        if _means_everything(pattern, "models"):
            yield json_path("$.models", pattern), f"models: the pattern {pattern!r} would declare every model at once"
        parts = rule.get("match") if isinstance(rule, dict) else None
        yield from _check_paths(parts, f"{json_path('models', pattern)}.match")
    tests = test.get("match") if isinstance(test, dict) else None
    for pattern, parts in (tests if isinstance(tests, dict) else {}).items():
        if _means_everything(pattern, "test.match"):
            yield json_path("$.test.match", pattern), f"test.match: the pattern {pattern!r} means every test"
        yield from _check_paths(parts, json_path("test.match", pattern))


def _check_paths(parts: JSON, name: str) -> Iterator[tuple[str, str]]:
    paths = parts.get("ignore_paths") if isinstance(parts, dict) else None
    yield from _check_list(paths, "match.ignore_paths", f"{name}.ignore_paths")


def _check_list(entries: JSON, setting: str, name: str) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, str) and entry and _means_everything(entry, setting):
            yield f"$.{name}[{index}]", f"{name}[{index}] is {entry!r}, which means everything"
        elif isinstance(entry, str) and setting in _LETTER_LISTS and "*" in entry and len(_find_names(entry)) == 1:
            yield f"$.{name}[{index}]", f"{name}[{index}] is {entry!r}, which means whatever has one character"


def _means_everything(entry: str, setting: str) -> bool:
    """Whether an entry has no letter and no digit outside of wildcards, or means every test or model."""
    if not _find_names(entry, has_brackets=setting != "match.ignore_paths"):
        return True
    if setting == "models":
        return all(fnmatchcase(model, entry) for model in _ANY_MODELS)
    return setting in TEST_LISTS and all(fnmatchcase(test, entry) for test in _ANY_TESTS)


def _find_names(entry: str, *, has_brackets: bool = True) -> str:
    """The letters and digits of an entry outside of wildcards."""
    names = _BRACKETS.sub("", entry) if has_brackets else entry
    return "".join(char for char in names if char.isalnum())
