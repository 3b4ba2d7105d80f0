"""Volatile parts of a project, of single models and of single tests.

In: the settings `match`, `models.NAME.match` and `test.match`. Out: the declarations that apply to a request, by its
model and its test. Never: lets a declaration for one test or model apply to another.

Of `models`, the first pattern that matches applies, as for every setting of a model. Of `test.match`, every pattern
that names the test does, in the order of their names, so that the order in the file decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from traceforge.canon import JSON, json_path
from traceforge.replay.volatile import MATCH_SETTING, VolatileRules

if TYPE_CHECKING:
    from traceforge.config import Config, LoadedConfig, MatchRule, VolatileParts
    from traceforge.wire.endpoints import Endpoint

SCOPES_CACHED = 4096
RULES_CACHED = 1024


class PartsDeclaration(Struct, frozen=True):
    """What one setting declares as volatile: for the project, or for the models or tests that a pattern names."""

    setting: str  # such as match, or models["gpt-4.1"].match
    parts: MatchRule | VolatileParts
    model_pattern: str = ""
    test_pattern: str = ""

    @property
    def section(self) -> str:
        """The section of the configuration that it is in."""
        return "models" if self.model_pattern else "test" if self.test_pattern else MATCH_SETTING

    def applies_to(self, scope: str, model_pattern: str) -> bool:
        """Whether it applies to a request in this scope, of a model that this is the pattern of."""
        is_model = not self.model_pattern or self.model_pattern == model_pattern
        return is_model and (not self.test_pattern or names_test(self.test_pattern, scope))


def list_declarations(config: Config) -> Iterator[PartsDeclaration]:
    """Everything that a project declares as volatile, by setting."""
    declarations = [
        PartsDeclaration(MATCH_SETTING, config.match),
        *(
            PartsDeclaration(f"{json_path('models', pattern)}.match", rule.match, model_pattern=pattern)
            for pattern, rule in config.models.items()
        ),
        *(
            PartsDeclaration(json_path("test.match", pattern), parts, test_pattern=pattern)
            for pattern, parts in sorted(config.test.match.items())
        ),
    ]
    for declaration in declarations:
        if declaration.parts.ignore_paths or declaration.parts.ignore_patterns:
            yield declaration


def names_test(pattern: str, scope: str) -> bool:
    """Whether a pattern names a test: it is its node id, or matches it."""
    return scope == pattern or fnmatchcase(scope, pattern)


def find_model_pattern(model: str, patterns: Iterable[str]) -> str:
    """The first pattern that names a model; "" where none does."""
    return next((pattern for pattern in patterns if fnmatchcase(model, pattern)), "")


def find_model(endpoint: Endpoint, body: JSON) -> str:
    """The model that a request names in its body or its URL; "" where it names none."""
    name = body.get("model") if isinstance(body, dict) else None
    return name if isinstance(name, str) else endpoint.model


class ScopedVolatileRules(VolatileRules):
    """The declarations of a project; those for single models and tests apply only to their requests."""

    def __init__(self, loaded: LoadedConfig) -> None:
        match, self._config = loaded.config.match, loaded.config
        super().__init__(match.ignore_paths, match.ignore_patterns, where=loaded.origins[MATCH_SETTING])
        self._declarations = list(list_declarations(loaded.config))
        for declaration in self._declarations:  # Refuse invalid ones now, and by the names of their settings.
            where = loaded.origins[declaration.section]
            parts, setting = declaration.parts, declaration.setting
            VolatileRules(parts.ignore_paths, parts.ignore_patterns, where=where, setting=setting)
        self._tests = lru_cache(SCOPES_CACHED)(self._match_tests)
        self._rules = lru_cache(RULES_CACHED)(self._combine_rules)

    def __bool__(self) -> bool:
        return bool(self._declarations)

    def find_rules(self, tests: tuple[str, ...], model: str) -> VolatileRules:
        return self._rules(tests, find_model_pattern(model, self._config.models))

    def list_tests(self, scope: str) -> tuple[str, ...]:
        return self._tests(scope)

    def _match_tests(self, scope: str) -> tuple[str, ...]:
        patterns = [declaration.test_pattern for declaration in self._declarations if declaration.test_pattern]
        return tuple(pattern for pattern in patterns if names_test(pattern, scope))

    def _combine_rules(self, tests: tuple[str, ...], model_pattern: str) -> VolatileRules:
        parts = [
            declaration.parts
            for declaration in self._declarations
            if (not declaration.model_pattern or declaration.model_pattern == model_pattern)
            and (not declaration.test_pattern or declaration.test_pattern in tests)
        ]
        return VolatileRules(
            [path for part in parts for path in part.ignore_paths],
            [pattern for part in parts for pattern in part.ignore_patterns],
        )


def make_volatile_rules(loaded: LoadedConfig) -> VolatileRules:
    """The declarations of a project.

    Raises:
        InvalidConfig: a path or an expression is invalid.
    """
    match = loaded.config.match
    if all(declaration.section == MATCH_SETTING for declaration in list_declarations(loaded.config)):
        return VolatileRules(match.ignore_paths, match.ignore_patterns, where=loaded.origins[MATCH_SETTING])
    return ScopedVolatileRules(loaded)
