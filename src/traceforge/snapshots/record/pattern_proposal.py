"""The smallest declaration for a part of a prompt that differs from run to run.

In: two recordings of the same call. Out: for each part that varies an expression for `ignore_patterns`, for as few
tests and models as it varied in. Never:
proposes anything for a difference that an author may have written: only for times, random ids and temporary paths,
and only if nothing else differs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from glob import escape
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, ascii_json
from traceforge.replay.scoped_volatile import find_model, find_model_pattern
from traceforge.replay.volatile_kinds import KINDS, VolatileSpan, find_volatile_spans
from traceforge.snapshots.record.pending_changes import PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.run_scopes import is_test_scope
from traceforge.wire.endpoints import find_endpoint

ANCHOR_LENGTH_MAX = 24
UNMISTAKABLE_KINDS = frozenset({"time stamp", "UUID", "temporary path"})  # The others may be meant: a date, a number.
_SPECIAL, _ESCAPED = re.compile(r"([\\.^$|?*+()\[\]{}])"), r"\\\1"
_LAST_WORDS = re.compile(rf"[^\n]{{0,{ANCHOR_LENGTH_MAX}}}\Z")


class PatternProposal(NamedTuple):
    """An expression, what it matches, and the models and scopes of the calls that it is for."""

    pattern: str
    kind: str
    models: tuple[str, ...]
    scopes: tuple[str, ...]
    setting: str  # the line to add to the configuration

    def to_json(self) -> JSONObject:
        return {**self._asdict(), "models": [*self.models], "scopes": [*self.scopes]}


def list_proposals(
    changes: Iterable[PendingChange],
    approved: Iterable[ApprovedCall],
    model_patterns: Iterable[str] = (),
    scopes_run: Collection[str] = (),
) -> list[PatternProposal]:
    """A proposal for each part that varies in calls that changed in nothing else, each expression once.

    It is for the test if the part varied in one test only, else for the model if there is only one, else for the
    project. `model_patterns` are those of the configuration, `scopes_run` the scopes that made the calls.
    """
    approved_calls = {call.id: call.raw_response for call in approved}
    calls: dict[
        tuple[str, str], tuple[dict[str, None], dict[str, None]]
    ] = {}  # models and scopes, by pattern and kind
    for change in changes:
        before = approved_calls.get(change.id)
        if before is None:
            continue
        for proposed in propose_patterns(before.request_body, change.raw_response.request_body):
            models, scopes = calls.setdefault(proposed, ({}, {}))
            raw = change.raw_response
            models.setdefault(find_model(find_endpoint(raw.method, raw.url), raw.request_body))
            all_scopes = [turn.scope for turn in change.turns]
            scopes.update(dict.fromkeys([scope for scope in all_scopes if scope in scopes_run] or all_scopes))
    return [
        PatternProposal(
            pattern, kind, (*models,), (*scopes,), _write_setting(pattern, [*models], [*scopes], model_patterns)
        )
        for (pattern, kind), (models, scopes) in calls.items()
    ]


def _write_setting(pattern: str, models: Sequence[str], scopes: Sequence[str], model_patterns: Iterable[str]) -> str:
    """The narrowest declaration that holds for all of these models and scopes."""
    parts = f'{{ "ignore_patterns": [{ascii_json(pattern)}] }}'
    functions = {scope.partition("[")[0] for scope in scopes}
    if len(functions) == 1 and all(map(is_test_scope, scopes)):
        # Several cases of one function: what follows its name is the bracket of their parameters.
        test = scopes[0] if len(scopes) == 1 else f"{escape(functions.pop())}[[]*"
        return f'"test": {{ "match": {{ {ascii_json(test)}: {parts} }} }}'
    if len(models) == 1 and models[0]:
        # The first pattern that names a model applies; another entry after it would have no effect.
        model = find_model_pattern(models[0], model_patterns) or escape(models[0])
        return f'"models": {{ {ascii_json(model)}: {{ "match": {parts} }} }}'
    return f'"match": {parts}'


def propose_patterns(before: JSON, after: JSON) -> list[tuple[str, str]]:
    """Expressions, each with the kind of what varies, after which two request bodies are equal; none if more differs
    than what is volatile by its nature.
    """
    patterns: dict[str, str] = {}
    for pair in _differing_texts(before, after):
        text_patterns = _propose_for_texts(*pair) if pair is not None else {}
        if not text_patterns:
            return []
        patterns.update(text_patterns)
    return list(patterns.items())


def _differing_texts(before: JSON, after: JSON) -> Iterator[tuple[str, str] | None]:
    """The texts that differ at the same place; None for any other difference."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _differing_texts(before[key], after[key])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for old, new in zip(before, after, strict=True):
            yield from _differing_texts(old, new)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            yield before, after
    elif before is not after and (type(before) is not type(after) or before != after):
        yield None


def _propose_for_texts(before: str, after: str) -> dict[str, str]:
    """Expressions by which two texts become equal, with their kinds; none if more differs than volatile parts."""
    old_spans, new_spans = list(find_volatile_spans(before)), list(find_volatile_spans(after))
    if _split_kinds(before, old_spans) != _split_kinds(after, new_spans):
        return {}
    patterns: dict[str, str] = {}
    for old, new in zip(old_spans, new_spans, strict=True):
        if before[old.start : old.end] != after[new.start : new.end]:
            steady = [
                other
                for other, later in zip(old_spans, new_spans, strict=True)
                if other.kind == old.kind and before[other.start : other.end] == after[later.start : later.end]
            ]
            needs_anchor = bool(steady) or old.kind not in UNMISTAKABLE_KINDS
            anchor = _find_anchor(before, old, old_spans) if needs_anchor else ""
            patterns[f"{_SPECIAL.sub(_ESCAPED, anchor)}{KINDS[old.kind]}"] = old.kind
    return patterns


def _split_kinds(text: str, spans: Sequence[VolatileSpan]) -> list[str]:
    """The text between its volatile parts, and their kinds."""
    parts = []
    end = 0
    for span in spans:
        parts += [text[end : span.start], span.kind]
        end = span.end
    return [*parts, text[end:]]


def _find_anchor(text: str, span: VolatileSpan, spans: Iterable[VolatileSpan]) -> str:
    """The words before a part on its line, as far as they are not volatile themselves."""
    start = max((other.end for other in spans if other.end <= span.start), default=0)
    match = _LAST_WORDS.search(text[start : span.start])
    words = match[0] if match else ""
    if start + len(words) < span.start or len(words) == ANCHOR_LENGTH_MAX:
        words = words.partition(" ")[2] or words  # Begin with a whole word.
    return words
