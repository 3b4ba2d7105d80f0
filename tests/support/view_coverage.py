"""How many calls of the corpus are kept, and how many of their traces have a unified view that says what happened.

A call is *kept* if its trace is valid and still has what was sent and what came back. It is *understood* if the view
has the model, what it was given, what it answered, and the tokens if the provider counted them. Whether the texts and
tool calls in the view are the right ones is the question of `corpus_traffic.judge`.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from support.corpus_traffic import Interaction, share
from support.exchanges import COMPOSER, recorded_exchange, trace_body

INPUTS = ("messages", "prompt", "input", "query", "instances")
MODEL_LABELS = (
    "chat.completions", "completions", "responses", "messages", "anthropic.complete", "generateContent",
    "streamGenerateContent", "api/chat", "api/generate", "embeddings", "embedContent", "api/embeddings",
    "cohere.chat", "rerank",
)  # fmt: skip
_COUNTED = re.compile(
    rb'"(?:usage|x_groq|tokens)"\s*:\s*\{|"(?:promptTokenCount|candidatesTokenCount|prompt_eval_count|eval_count)"'
)


class ViewVerdict(NamedTuple):
    """What the trace of one call has."""

    interaction: Interaction
    is_kept: bool
    is_answered: bool  # a model answered it
    missing: tuple[str, ...]  # what the view lacks
    problems: tuple[str, ...]  # the paths of its `view_problems`, without the places in lists

    @property
    def is_understood(self) -> bool:
        """Whether the view lacks nothing."""
        return not self.missing


def judge_view(interaction: Interaction, number: int) -> ViewVerdict:
    """Record one call, and look at its trace."""
    trace = trace_body(COMPOSER.compose(recorded_exchange(interaction, number)))
    return ViewVerdict(
        interaction,
        _is_kept(interaction, trace),
        _is_answered(interaction),
        tuple(_find_missing(interaction, trace)),
        tuple(re.sub(r"\[\d+\]", "[]", entry["path"]) for entry in trace.get("view_problems", ())),
    )


def _is_kept(interaction: Interaction, trace: dict[str, Any]) -> bool:
    sent, received = trace["provider_request"], trace["provider_response"]
    return (sent is not None or not interaction.request) and (received is not None or not interaction.body)


def _is_answered(interaction: Interaction) -> bool:
    """Whether a model answered: a failed call has an error, and a cut recording no body."""
    starts = interaction.body.lstrip()
    return (
        interaction.method == "POST"
        and interaction.label in MODEL_LABELS
        and interaction.status < 400
        and bool(starts)
        and not re.match(rb'\{\s*"error"\s*:\s*[{"]', starts)
    )


def _find_missing(interaction: Interaction, trace: dict[str, Any]) -> Iterable[str]:
    request, response = trace["request"], trace["response"] or {}
    if not (request["model"] or response.get("model")):
        yield "model"
    if _is_object(interaction.request) and not any(request.get(name) for name in INPUTS):
        yield "input"
    if not any(response.get(name) for name in ("choices", "data", "results")):
        yield "answer"
    if _COUNTED.search(interaction.body) and not response.get("usage"):
        yield "usage"


def _is_object(data: bytes) -> bool:
    try:
        return bool(data) and isinstance(json.loads(data), dict)
    except ValueError:
        return False


def view_table(verdicts: Iterable[ViewVerdict]) -> str:
    """Per provider and endpoint: calls, kept, answered by a model, understood; then what is missing, and problems."""
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    missing: Counter[tuple[str, str]] = Counter()
    problems: Counter[str] = Counter()
    for verdict in verdicts:
        interaction = verdict.interaction
        understood = verdict.is_answered and verdict.is_understood
        rows[interaction.provider, interaction.label] += Counter(
            calls=1, kept=verdict.is_kept, answered=verdict.is_answered, understood=understood
        )
        problems.update(set(verdict.problems))
        if verdict.is_answered:
            missing.update((interaction.label, name) for name in verdict.missing)
    columns = ("calls", "kept", "answered", "understood")
    total = sum(rows.values(), Counter[str]())
    lines = [f"{'provider':<18}{'endpoint':<24}" + "".join(f"{name:>11}" for name in columns)]
    lines += [
        f"{provider:<18}{label:<24}" + "".join(f"{counts[name]:>11}" for name in columns)
        for (provider, label), counts in sorted(rows.items())
    ]
    lines.append(f"{'all':<42}" + "".join(f"{total[name]:>11}" for name in columns))
    lines.append(f"kept {share(total['kept'], total['calls'])}")
    lines.append(f"understood {share(total['understood'], total['answered'])} of those that a model answered")
    lines += [f"  {count:>5}  {label}: the view has no {name}" for (label, name), count in missing.most_common()]
    return "\n".join(lines + [f"  {count:>5}  {path} did not fit" for path, count in problems.most_common()])
