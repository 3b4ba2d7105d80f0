"""Lines of `traceforge check-live`: the estimate before the calls, and the result.

In: a plan, an estimate, verdicts. Out: lines of text. Never: prints, decides, or shows an API key or an unredacted
value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from traceforge.report.diff_text import comparison_text
from traceforge.report.text_format import PROMPT_ONLY, count, hint_line, rate_range, table
from traceforge.snapshots.live.live_plan import CostEstimate, LiveCall, LivePlan, list_cleartext_hosts
from traceforge.snapshots.live.live_verdict import (
    AnswerCluster,
    CheckedCall,
    Divergence,
    LiveVerdict,
    first_divergence,
)
from traceforge.statistics.rate_interval import exact_interval
from traceforge.terminal import one_line

WORD_LENGTH_MAX = 40
FAILURES_SHOWN = 3
MODELS_SHOWN = 5


def plan_lines(plan: LivePlan, missing: Sequence[LiveCall], cost: CostEstimate) -> Iterator[str]:
    """Which calls will be made, where they go, and what they cost by the recorded usage."""
    reused = plan.request_count - len(missing)
    runs = f" × {count(plan.runs, 'run')}" if plan.runs > 1 else ""
    if not plan.calls:
        yield f"no call to make: {count(len(plan.unsendable), 'snapshot')} cannot be sent, see below"
        return
    yield f"{count(len(missing), 'call')} to make: {count(len(plan.calls), 'snapshot')}{runs}"
    if reused:
        yield f"    {count(reused, 'answer')} of an interrupted check {'is' if reused == 1 else 'are'} reused"
    for destination, calls in sorted(Counter(map(_destination, missing)).items()):
        yield f"    {destination}: {count(calls, 'call')}"
    without_count = f"; {count(cost.without_usage, 'call')} recorded none" if cost.without_usage else ""
    yield f"    about {cost.tokens:,} tokens, as recorded{without_count}"
    if cost.price is not None:
        yield f"    about {cost.price:,.4f} by the prices in the configuration"
    if cost.unpriced:
        more = f" and {len(cost.unpriced) - MODELS_SHOWN} more" if len(cost.unpriced) > MODELS_SHOWN else ""
        yield f"    no price is declared for {one_line(', '.join(cost.unpriced[:MODELS_SHOWN]))}{more}"
    for host in list_cleartext_hosts(plan.calls):
        yield f"    no key is sent to {one_line(host)}: the connection is not encrypted"
    if plan.unsendable:
        yield f"    {count(len(plan.unsendable), 'snapshot')} cannot be sent: see below"


def _destination(call: LiveCall) -> str:
    host = "/".join(call.url.split("/", 3)[:3])
    return f"{one_line(call.model or '(no model)')} of {one_line(call.approved.provider)} at {one_line(host)}"


def verdict_lines(results: Sequence[CheckedCall], *, strict: bool, colour: bool = False) -> Iterator[str]:
    """The result of every snapshot that differs or could not be checked; the others are counted."""
    for result in results:
        if result.verdict in (LiveVerdict.CHANGED, LiveVerdict.VARIES):
            yield from _difference_lines(result, strict=strict, colour=colour)
        if result.verdict is LiveVerdict.UNCHECKED or result.failed:
            yield from _unchecked_lines(result)
    yield from _agreement_lines(results)
    yield _summary_line(results, strict=strict)


def _difference_lines(result: CheckedCall, *, strict: bool, colour: bool) -> Iterator[str]:
    fails = result.is_failure(strict=strict)
    varies = result.verdict is LiveVerdict.VARIES
    yield f"{'❌' if fails else '⚠️'} {'Non-deterministic behavior detected' if varies else 'The answer changed'}"
    sentence = "produced different outputs" if varies else "differ from the approved answer"
    yield f"   {result.different_runs}/{len(result.answers)} runs {sentence}"
    yield "   → CI fails" if fails else f"   → {PROMPT_ONLY}: reported, not a failure"
    yield f"   {result.approved.id}, {_call_site(result)}"
    if result.runs > 1:
        approved = result.approved_count
        yield f"   the approved answer in {approved.passed} of {count(approved.runs, 'run')}: {_true_rate(result)}"
    for number, cluster in enumerate(result.clusters):
        yield f"   {answer_letter(number)}: {count(len(cluster.runs), 'run')}, {_cluster(cluster)}"
    changed = next(cluster for cluster in result.clusters if not cluster.is_approved)
    yield from (f"   {line}".rstrip() for line in comparison_text(changed.comparison, colour=colour).split("\n"))
    if result.runs > 1:
        yield from (f"   {line}" for line in _runs_table(result))


def _agreement_lines(results: Sequence[CheckedCall]) -> Iterator[str]:
    """What several runs that agree say about the runs to come."""
    same = [result for result in results if result.verdict is LiveVerdict.SAME and result.runs > 1]
    if same:
        snapshots = f" of {len(same)} snapshots" if len(same) > 1 else ""
        each = " each" if len(same) > 1 else ""
        yield f"all {same[0].runs} runs{snapshots} gave the approved answer: {_true_rate(same[0])}{each}"


def _true_rate(result: CheckedCall) -> str:
    return f"a true rate of {rate_range(exact_interval(result.approved_count))} fits"


def _cluster(cluster: AnswerCluster) -> str:
    first = first_divergence(cluster.comparison)
    return "the approved answer" if first is None else divergence_text(first)


def divergence_text(first: Divergence) -> str:
    """Where an answer first differs from the approved one, in words."""
    if first.word is None:
        return f"differs at {one_line(first.path)}: {one_line(first.after)}"
    return f"differs from word {first.word} on: {_word(first.after)} instead of {_word(first.before)}"


def _word(text: str) -> str:
    short = text if len(text) <= WORD_LENGTH_MAX else f"{text[:WORD_LENGTH_MAX]}…"
    return f'"{one_line(short)}"' if text else "the end"


def _runs_table(result: CheckedCall) -> Iterator[str]:
    rows = [
        [
            str(answer.run),
            answer_letter(result.cluster_of(answer.run)),
            one_line(answer.model) or "-",
            one_line(answer.system_fingerprint) or "-",
            f"{answer.tokens:.0f}" if answer.tokens is not None else "-",
            f"{answer.latency_ms:.0f}",
        ]
        for answer in result.answers
    ]
    return table(["RUN", "ANSWER", "MODEL", "FINGERPRINT", "TOKENS", "MS"], rows)


def answer_letter(number: int) -> str:
    """A, B, … Z, then numbers."""
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def _unchecked_lines(result: CheckedCall) -> Iterator[str]:
    if result.unsendable:
        yield f"not checked: {result.approved.id}: {one_line(result.unsendable)}"
        if result.hint:
            yield hint_line(result.hint)
        return
    yield f"not checked: {result.approved.id}: {len(result.failed)} of {count(result.runs, 'run')} got no answer"
    for why, times in Counter(failed.why for failed in result.failed).most_common(FAILURES_SHOWN):
        yield f"    {one_line(why)} ({times}×)"


def _call_site(result: CheckedCall) -> str:
    source = result.approved.source
    location = f"{source.get('file')}:{source.get('line')}" if source.get("file") else "(unknown)"
    return one_line(f"{location} in {source['function']}" if source.get("function") else location)


def _summary_line(results: Sequence[CheckedCall], *, strict: bool) -> str:
    """The last line: RED or GREEN, and the counts."""
    verdicts = Counter(result.verdict for result in results)
    lenient = sum(
        result.verdict in (LiveVerdict.CHANGED, LiveVerdict.VARIES) and not result.is_failure(strict=strict)
        for result in results
    )
    unchecked = sum(result.verdict is LiveVerdict.UNCHECKED or bool(result.failed) for result in results)
    checked = len(results) - verdicts[LiveVerdict.UNCHECKED]
    parts = [f"{count(checked, 'snapshot')} checked live"]
    parts += [f"{verdicts[LiveVerdict.SAME]} the same"] if checked else []
    parts += [f"{verdicts[LiveVerdict.CHANGED]} changed"] if verdicts[LiveVerdict.CHANGED] else []
    parts += [f"{verdicts[LiveVerdict.VARIES]} not deterministic"] if verdicts[LiveVerdict.VARIES] else []
    parts += [f"{lenient} of them not failures ({PROMPT_ONLY})"] if lenient else []
    parts += [f"{unchecked} not checked"] if unchecked else []
    red = unchecked or any(result.is_failure(strict=strict) for result in results)
    return f"{'RED' if red else 'GREEN'}: {', '.join(parts)}"
