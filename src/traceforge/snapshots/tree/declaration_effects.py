"""Whether what a project declares as irrelevant hides more than it may.

In: the declarations of a project, and its approved calls. Out: a finding for every declaration that goes too far.
Never: judges an expression by how it looks: what it does to approved requests decides, and to an ordinary sentence.

A declaration is refused if it blanks over half of a message, or makes two approved requests equal. One for a model or
a test is judged by the requests that it applies to. Times, random ids
and temporary paths that an expression matches are not counted: they are what declarations are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from traceforge.canon import JSON, canonical_bytes, json_path
from traceforge.config import Config, LoadedConfig
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.exchange import Headers
from traceforge.findings import Finding
from traceforge.replay.scoped_volatile import PartsDeclaration, find_model_pattern, list_declarations
from traceforge.replay.volatile import MATCH_SETTING, VolatileRules
from traceforge.replay.volatile_kinds import find_volatile_spans, replace_volatile_spans
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree.approved_calls import ApprovedCall, ScopeTurn, load_approved_calls

EFFECT_RULE = "CF3"
BLANKED_SHARE_MAX = 0.5
REDACT_SETTING = "redact_patterns"

# Whoever writes a prompt writes texts like these; an expression that blanks them would blank any prompt.
ORDINARY_TEXTS = (
    "You are a careful assistant. Answer the question of the user in one sentence, and name your source.",
    '{"question": "Which of the two offers is cheaper?", "limit": 3}',
)
# Members of a request whose texts are what a model reads.
MESSAGE_MEMBERS = frozenset({"content", "input", "instructions", "output", "prompt", "system", "text"})


_HALF_HINT = (
    "Take it out of the configuration; then traceforge record -- COMMAND proposes an expression for the part "
    "that varies."
)
_EQUAL_HINT = 'Narrow it until the two differ again, or remove one: traceforge snapshot rm {id} --reason "…"'


class _Declaration(Struct, frozen=True):
    """One declaration: a place that is ignored, or an expression; or several that apply together."""

    setting: str  # such as match.ignore_patterns[0]
    rules: VolatileRules
    calls: Sequence[ApprovedCall]  # those that it applies to
    name: str = ""  # in messages, if it is not the setting


def has_declarations(config: Config) -> bool:
    """Whether a project declares anything as irrelevant."""
    return bool(config.redact_patterns) or any(list_declarations(config))


def check_declarations(loaded: LoadedConfig) -> list[Finding]:
    """As `find_excessive_declarations`, for the snapshots of a project; those that cannot be read have findings of
    their own.
    """
    if not has_declarations(loaded.config):
        return []
    try:
        calls = load_approved_calls(loaded.project, ModelPolicy.from_config(loaded.config))
    except (CannotRead, NotJSON, InvalidFile):
        return []
    return find_excessive_declarations(loaded, calls)


def find_excessive_declarations(loaded: LoadedConfig, calls: Sequence[ApprovedCall]) -> list[Finding]:
    """A finding for each declaration of a project that hides too much of its approved requests; if none does so by
    itself, also for all of them together.

    Raises:
        InvalidConfig: a declaration cannot be read.
    """
    if not has_declarations(loaded.config):
        return []
    findings = [
        finding
        for declaration in _list_single(loaded.config, calls)
        if (finding := _check_declaration(loaded, declaration)) is not None
    ]
    if findings:
        return findings
    together = (_check_declaration(loaded, declaration) for declaration in _list_joint(loaded.config, calls))
    return list(islice((finding for finding in together if finding is not None), 1))


def _check_declaration(loaded: LoadedConfig, declaration: _Declaration) -> Finding | None:
    problem = _find_blanked(declaration)
    if problem is None and not declaration.setting.startswith(REDACT_SETTING):
        problem = _find_equated(declaration)
    if problem is None:
        return None
    where = loaded.origins[declaration.setting.partition(".")[0].partition("[")[0]]
    message, hint = problem
    name = declaration.name or declaration.setting
    return Finding(where, f"$.{declaration.setting}", EFFECT_RULE, f"{name} {message}", hint)


def _list_single(config: Config, calls: Sequence[ApprovedCall]) -> Iterator[_Declaration]:
    """Each path and each expression."""
    for declaration in list_declarations(config):
        setting = declaration.setting
        matching = [call for call in calls if _applies_to(declaration, call, config)]
        for place, path in enumerate(declaration.parts.ignore_paths):
            yield _Declaration(f"{setting}.ignore_paths[{place}]", VolatileRules(paths=[path]), matching)
        for place, pattern in enumerate(declaration.parts.ignore_patterns):
            yield _Declaration(f"{setting}.ignore_patterns[{place}]", VolatileRules(patterns=[pattern]), matching)
    for place, pattern in enumerate(config.redact_patterns):
        yield _Declaration(f"{REDACT_SETTING}[{place}]", VolatileRules(patterns=[pattern]), calls)


def _list_joint(config: Config, calls: Sequence[ApprovedCall]) -> Iterator[_Declaration]:
    """All that applies to a request at once, for each set of declarations that apply together."""
    declarations = list(list_declarations(config))
    calls_by_settings: dict[tuple[str, ...], list[ApprovedCall]] = {}
    for call in calls:
        model_pattern = find_model_pattern(call.model, config.models)
        sets = {
            tuple(entry.setting for entry in declarations if entry.applies_to(turn.scope, model_pattern))
            for turn in call.turns or [ScopeTurn("")]
        }
        for settings in sets:
            calls_by_settings.setdefault(settings, []).append(call)
    for settings, matching in {**calls_by_settings, (MATCH_SETTING,): calls}.items():
        parts = [declaration.parts for declaration in declarations if declaration.setting in settings]
        paths = [path for part in parts for path in part.ignore_paths]
        patterns = [pattern for part in parts for pattern in part.ignore_patterns]
        if len(paths) + len(patterns) > 1:
            name = f"{settings[-1]} with {' and '.join(settings[:-1])}" if settings[1:] else settings[0]
            yield _Declaration(settings[-1], VolatileRules(paths, patterns), matching, name)
    if len(config.redact_patterns) > 1:
        yield _Declaration(REDACT_SETTING, VolatileRules(patterns=config.redact_patterns), calls)


def _applies_to(declaration: PartsDeclaration, call: ApprovedCall, config: Config) -> bool:
    model_pattern = find_model_pattern(call.model, config.models)
    return any(declaration.applies_to(turn.scope, model_pattern) for turn in call.turns or [ScopeTurn("")])


def _find_blanked(declaration: _Declaration) -> tuple[str, str] | None:
    """The message and the hint if over half of a message is blanked."""
    rules = declaration.rules
    if any(_blanked_share(rules, text) > BLANKED_SHARE_MAX for text in ORDINARY_TEXTS):
        return "blanks over half of an ordinary sentence", _HALF_HINT
    for call in declaration.calls:
        body = call.raw_response.request_body if call.raw_response is not None else None
        for path, text in _list_messages(body, "$"):
            share = 1.0 if rules.is_volatile(path) else _blanked_share(rules, text)
            if share > BLANKED_SHARE_MAX:
                return f"blanks {share:.0%} of the message at {path} of {call.id}", _HALF_HINT
    return None


def _blanked_share(rules: VolatileRules, text: str) -> float:
    """How much of a text is blanked, without what is volatile by its nature."""
    blanked = 0
    for match in rules.find_matches(text):
        blanked += len(match) - sum(span.end - span.start for span in find_volatile_spans(match))
    return blanked / len(text) if text else 0.0


def _list_messages(value: JSON, path: str, *, is_message: bool = False) -> Iterator[tuple[str, str]]:
    """The texts of a request that a model reads, with their paths."""
    if isinstance(value, str):
        if is_message:
            yield path, value
    elif isinstance(value, dict):
        for name, child in value.items():
            yield from _list_messages(child, json_path(path, name), is_message=name in MESSAGE_MEMBERS)
    elif isinstance(value, list):
        for place, child in enumerate(value):
            yield from _list_messages(child, json_path(path, place), is_message=is_message)


def _find_equated(declaration: _Declaration) -> tuple[str, str] | None:
    """The message and the hint if two approved requests are equal after the declaration, and differed before."""
    equal_calls: dict[tuple[str, str, Headers, bytes], list[ApprovedCall]] = {}
    for call in declaration.calls:
        raw = call.raw_response
        if raw is None:
            continue
        body = canonical_bytes(declaration.rules.replace_parts(raw.request_body).value)
        others = equal_calls.setdefault((raw.method, raw.url, raw.request_headers, body), [])
        for other in others:
            if not _is_same_call(other, call):
                return f"makes the requests of {other.id} and {call.id} equal", _EQUAL_HINT.format(id=call.id)
        others.append(call)
    return None


def _is_same_call(first: ApprovedCall, second: ApprovedCall) -> bool:
    """Whether two requests are equal but for what is volatile by its nature, or were recorded as equal ones."""
    if any(turn.scope == other.scope and turn.turn != other.turn for turn in first.turns for other in second.turns):
        return True
    bodies = {
        canonical_bytes(replace_volatile_spans(call.raw_response.request_body))
        for call in (first, second)
        if call.raw_response is not None
    }
    return len(bodies) == 1
