"""What `check-live` says to a person: what it will cost, and what came of it.

In: a plan, an estimate, verdicts. Out: lines of text. Never: prints, decides, or shows a key or a value that
redaction has not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from traceforge.report.diff_text import comparison_text
from traceforge.report.text_format import count, one_line, table
from traceforge.snapshots.live.live_plan import Estimate, LiveCall, Plan, in_the_clear
from traceforge.snapshots.live.live_verdict import Checked, Cluster, Divergence, Verdict, first_divergence

WORD_LENGTH_MAX = 40
FAILURES_SHOWN = 3
MODELS_SHOWN = 5


def plan_lines(plan: Plan, missing: Sequence[LiveCall], cost: Estimate) -> Iterator[str]:
    """What will be sent where, and what that costs by what was recorded."""
    before = plan.total - len(missing)
    runs = f" × {count(plan.runs, 'run')}" if plan.runs > 1 else ""
    yield f"{count(len(missing), 'call')} to make: {count(len(plan.calls), 'snapshot')}{runs}"
    if before:
        yield f"    {count(before, 'answer')} of a check that was stopped {'is' if before == 1 else 'are'} used again"
    for where, calls in sorted(Counter(map(_where, missing)).items()):
        yield f"    {where}: {count(calls, 'call')}"
    untold = f"; {count(cost.untold, 'call')} recorded none" if cost.untold else ""
    yield f"    about {cost.tokens:,} tokens, as many as were recorded{untold}"
    if cost.price is not None:
        yield f"    about {cost.price:,.4f} by the prices in the configuration"
    if cost.unpriced:
        more = f" and {len(cost.unpriced) - MODELS_SHOWN} more" if len(cost.unpriced) > MODELS_SHOWN else ""
        yield f"    no price is declared for {one_line(', '.join(cost.unpriced[:MODELS_SHOWN]))}{more}"
    for host in in_the_clear(plan.calls):
        yield f"    no key is sent to {one_line(host)}: the connection is not encrypted"
    if plan.unsendable:
        yield f"    {count(len(plan.unsendable), 'snapshot')} cannot be sent: see below"


def _where(call: LiveCall) -> str:
    host = "/".join(call.url.split("/", 3)[:3])
    return f"{one_line(call.model or '(no model)')} of {one_line(call.approved.provider)} at {one_line(host)}"


def verdict_lines(found: Sequence[Checked], *, strict: bool, colour: bool = False) -> Iterator[str]:
    """What every snapshot came to; what is the same is only counted."""
    for one in found:
        if one.verdict in (Verdict.CHANGED, Verdict.VARIES):
            yield from _difference_lines(one, strict=strict, colour=colour)
        if one.verdict is Verdict.UNCHECKED or one.failed:
            yield from _unchecked_lines(one)
    yield _last(found, strict=strict)


def _difference_lines(one: Checked, *, strict: bool, colour: bool) -> Iterator[str]:
    fails = one.fails(strict=strict)
    varies = one.verdict is Verdict.VARIES
    yield f"{'❌' if fails else '⚠️'} {'Non-deterministic behavior detected' if varies else 'The answer changed'}"
    told = "produced different outputs" if varies else "differ from the approved answer"
    yield f"   {one.different}/{len(one.answers)} runs {told}"
    yield "   → CI fails" if fails else "   → only the request is gated: reported, and no failure"
    yield f"   {one.approved.id}, {_place(one)}"
    for number, cluster in enumerate(one.clusters):
        yield f"   {_letter(number)}: {count(len(cluster.runs), 'run')}, {_cluster(cluster)}"
    changed = next(cluster for cluster in one.clusters if not cluster.is_approved)
    yield from (f"   {line}".rstrip() for line in comparison_text(changed.comparison, colour=colour).split("\n"))
    if one.runs > 1:
        yield from (f"   {line}" for line in _runs_table(one))


def _cluster(cluster: Cluster) -> str:
    first = first_divergence(cluster.comparison)
    return "the approved answer" if first is None else _divergence(first)


def _divergence(first: Divergence) -> str:
    if first.word is None:
        return f"differs at {first.path}: {one_line(first.after)}"
    return f"differs from word {first.word} on: {_word(first.after)} instead of {_word(first.before)}"


def _word(text: str) -> str:
    short = text if len(text) <= WORD_LENGTH_MAX else f"{text[:WORD_LENGTH_MAX]}…"
    return f'"{one_line(short)}"' if text else "the end"


def _runs_table(one: Checked) -> Iterator[str]:
    rows = [
        [
            str(answer.run),
            _letter(one.cluster_of(answer.run)),
            one_line(answer.model) or "-",
            one_line(answer.system_fingerprint) or "-",
            f"{answer.tokens:.0f}" if answer.tokens is not None else "-",
            f"{answer.latency_ms:.0f}",
        ]
        for answer in one.answers
    ]
    return table(["RUN", "ANSWER", "MODEL", "FINGERPRINT", "TOKENS", "MS"], rows)


def _letter(number: int) -> str:
    """A, B, … Z, then numbers: nobody reads more than 26 answers."""
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def _unchecked_lines(one: Checked) -> Iterator[str]:
    if one.unsendable:
        yield f"not checked: {one.approved.id}: {one_line(one.unsendable)}"
        if one.hint:
            yield f"    → {one_line(one.hint)}"
        return
    yield f"not checked: {one.approved.id}: {len(one.failed)} of {count(one.runs, 'run')} got no answer"
    for why, times in Counter(failed.why for failed in one.failed).most_common(FAILURES_SHOWN):
        yield f"    {one_line(why)} ({times}×)"


def _place(one: Checked) -> str:
    source = one.approved.source
    place = f"{source.get('file')}:{source.get('line')}" if source.get("file") else "(unknown)"
    return one_line(f"{place} in {source['function']}" if source.get("function") else place)


def _last(found: Sequence[Checked], *, strict: bool) -> str:
    """How it ended."""
    verdicts = Counter(one.verdict for one in found)
    lenient = sum(one.verdict in (Verdict.CHANGED, Verdict.VARIES) and not one.fails(strict=strict) for one in found)
    unchecked = sum(one.verdict is Verdict.UNCHECKED or bool(one.failed) for one in found)
    said = [f"{count(len(found), 'snapshot')} checked live", f"{verdicts[Verdict.SAME]} the same"]
    said += [f"{verdicts[Verdict.CHANGED]} changed"] if verdicts[Verdict.CHANGED] else []
    said += [f"{verdicts[Verdict.VARIES]} not deterministic"] if verdicts[Verdict.VARIES] else []
    said += [f"{lenient} of them request gated"] if lenient else []
    said += [f"{unchecked} not checked"] if unchecked else []
    red = unchecked or any(one.fails(strict=strict) for one in found)
    return f"{'RED' if red else 'GREEN'}: {', '.join(said)}"
