"""Repair the unified view of a call where a provider's field does not fit the trace format.

In: the body of a trace, and the findings about its views. Out: views that fit, and an entry for each field that did
not: where it is, what is wrong with it, and what the view has in its place. Never: drops a view because of one field,
makes up a count, or touches the provider's own bodies, which keep what the field had.

    usage                     a count that follows from the others is filled in; without one, `usage` is left out
    role                      `user` in a request, `assistant` in a response
    finish_reason, created, … null, where the format allows it
    a text among parts        a part that holds it; any other item that does not fit is left out
    any other field           left out
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.findings import Finding
from traceforge.traces.trace_format import check_trace
from traceforge.wire.unified import as_object, as_text, is_number, list_objects

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_COUNT_SYNONYMS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"), ("total_tokens",))
_USAGE = "$.response.usage"
_STEPS = re.compile(r"\.([A-Za-z_]+)|\[([0-9]+)\]")
_LEFT_OUT: JSONObject = {}  # Compared by identity: no field of a view is replaced with an object.

_Path = tuple[str | int, ...]  # The names and places after `$`.


class ViewProblem(NamedTuple):
    """A field of the provider that does not fit the view, as people read it."""

    path: str
    problem: str
    shown_as: str  # JSON; "" if the view leaves the field out

    @property
    def sentence(self) -> str:
        """What is wrong, and what the view has in its place."""
        return f"{self.problem}; {f'shown as {self.shown_as}' if self.shown_as else 'left out'}"


def read_view_problems(body: JSONObject) -> tuple[ViewProblem, ...]:
    """The entries of `view_problems` of a trace; what is not one is passed over."""
    return tuple(
        ViewProblem(
            as_text(entry.get("path")),
            as_text(entry.get("problem")),
            json_bytes(entry["shown_as"]).decode(errors="replace") if "shown_as" in entry else "",
        )
        for entry in list_objects(body.get("view_problems"))
    )


def repair_views(body: JSONObject, findings: Iterable[Finding]) -> list[JSON]:
    """Replace `request` and `response` of a trace with views that fit; returns the entries of `view_problems`."""
    problems = {f.path: f.message for f in findings if f.path.startswith(("$.request", "$.response"))}
    replacements: dict[str, JSON] = {}
    usage_problems = [path for path in problems if path.startswith(_USAGE)]
    if usage_problems:
        response = as_object(body["response"])
        counts = derive_counts(as_object(response.get("usage")))
        body["response"] = _with_usage(response, counts)
        replacements = {path: (counts or {}).get(path.rpartition(".")[2], _LEFT_OUT) for path in usage_problems}
    # From the last to the first: an item that is left out moves none that is still to be repaired.
    for path in sorted(problems.keys() - replacements.keys(), key=_sort_key, reverse=True):
        steps = _parse_path(path)
        parent = _find_parent(body, steps)
        replacements[path] = _find_replacement(steps, parent)
        repaired = _replace(body, steps, replacements[path])
        body.update(cast("JSONObject", repaired))
    entries = [_entry(path, message, replacements[path]) for path, message in problems.items()]
    return [*entries, *_drop_unrepaired(body)]


def _drop_unrepaired(body: JSONObject) -> list[JSON]:
    """The last resort, so that a trace is written in any case: a view that still does not fit is left out."""
    findings = check_trace(body)
    if findings:
        body["request"] = {"model": ""}
        body["response"] = None if body["response"] is None else {"object": "other"}
    return [_entry(finding.path, finding.message, _LEFT_OUT) for finding in findings]


def derive_counts(usage: Mapping[str, JSON]) -> JSONObject | None:
    """The three counts of a usage, where two give the third; None where they do not, or contradict each other."""
    prompt, completion, total = (_first_count(usage, names) for names in _COUNT_SYNONYMS)
    if prompt is None and completion is not None and total is not None:
        prompt = total - completion
    elif completion is None and prompt is not None and total is not None:
        completion = total - prompt
    elif total is None and prompt is not None and completion is not None:
        total = prompt + completion
    counts = dict(zip(_COUNTS, (prompt, completion, total), strict=True))
    return cast("JSONObject", counts) if all(n is not None and n >= 0 for n in counts.values()) else None


def _first_count(usage: Mapping[str, JSON], names: Iterable[str]) -> float | None:
    return next((cast("float", usage[name]) for name in names if is_number(usage.get(name))), None)


def _with_usage(response: JSONObject, counts: JSONObject | None) -> JSONObject:
    if counts is None:
        return {name: value for name, value in response.items() if name != "usage"}
    usage = as_object(response["usage"])
    return {**response, "usage": {**usage, **counts, "provider": usage.get("provider", usage)}}


def _entry(path: str, message: str, replacement: JSON) -> JSON:
    entry: JSONObject = {"path": path, "problem": message}
    return entry if replacement is _LEFT_OUT else {**entry, "shown_as": replacement}


def _parse_path(path: str) -> _Path:
    return tuple(int(place) if place else name for name, place in _STEPS.findall(path))


def _sort_key(path: str) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in _parse_path(path)]


def _find_parent(value: JSON, steps: _Path) -> JSON:
    for step in steps[:-1]:
        if isinstance(value, dict):
            value = value.get(cast("str", step))
        elif isinstance(value, list):
            value = value[cast("int", step)]
    return value


def _find_replacement(steps: _Path, parent: JSON) -> JSON:
    """What the view has in place of a field that does not fit; `_LEFT_OUT` where it has nothing."""
    match steps:
        case ("request", "model"):
            return ""
        case ("response", "object"):
            return "chat.completion" if isinstance(parent, dict) and "choices" in parent else "other"
        case ("response", "id" | "created" | "model") | ("response", "choices", _, "finish_reason"):
            return None
        case ("response", "choices", int(place), "index"):
            return place
        case (view, *_, "role"):
            return "user" if view == "request" else "assistant"
        case (*_, "content", int(place)) if isinstance(parent, list) and isinstance(parent[place], str):
            return {"type": "text", "text": parent[place]}
    return _LEFT_OUT


def _replace(value: JSON, steps: _Path, replacement: JSON) -> JSON:
    """A copy of `value` with the replacement at a place; only what the place is in is copied."""
    step, inner = steps[0], steps[1:]
    if isinstance(value, list) and isinstance(step, int):
        items = [_replace(value[step], inner, replacement)] if inner else [replacement]
        return [*value[:step], *([] if items[0] is _LEFT_OUT else items), *value[step + 1 :]]
    members = dict(cast("JSONObject", value))
    name = cast("str", step)
    if inner:
        members[name] = _replace(members[name], inner, replacement)
    elif replacement is _LEFT_OUT:
        members.pop(name, None)
    else:
        members[name] = replacement
    return members
