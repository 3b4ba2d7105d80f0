"""The types of a check file: `.ai-checks/*.yaml`.

A file holds one check, or a list of them under `tests`. A check says which answer it looks at (`trace_id`,
`session`, `snapshot` or `request`), and what must hold for it (`assertions`). With `cases`, it is a template: each
case of a data set fills its `{{variables}}`.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from traceforge.checks.formats.assertion_types import AnyAssertion, Fixtures
from traceforge.shape import NonEmptyText, OpenObject, ShapeProblem, find_problems
from traceforge.statistics.pass_rate import RUNS_MAX, PassRateTest

TIMEOUT_MAX_S = 3600
MARGIN = 0.1
SOURCES = ("trace_id", "session", "snapshot", "request")

CheckName = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=r"\S", description="a text with more than white space")
]
PassRate = Annotated[float, Meta(ge=0, le=1)]
RunCount = Annotated[float, Meta(ge=1, le=RUNS_MAX, multiple_of=1)]


class CaseFile(Struct, forbid_unknown_fields=True, frozen=True):
    """Cases of a data set: a file of JSON lines (`.jsonl`) or a table with a header row (`.csv`), in the project."""

    file: NonEmptyText


class CaseTraces(Struct, forbid_unknown_fields=True, frozen=True):
    """Cases of recorded calls: those that a query finds, newest first."""

    traces: str
    limit: Annotated[float, Meta(ge=1, le=RUNS_MAX, multiple_of=1)] = 100


class CheckRequest(Struct, frozen=True):
    """A request in the unified shape, with any field of its provider. `provider` names the API that has the model."""

    model: NonEmptyText
    provider: NonEmptyText | UnsetType = UNSET
    messages: Annotated[list[OpenObject], Meta(min_length=1)] | UnsetType = UNSET
    prompt: NonEmptyText | UnsetType = UNSET


class Check(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One check: an answer, where it comes from, and what must hold for it."""

    name: CheckName
    assertions: Annotated[list[AnyAssertion], Meta(min_length=1)]
    trace_id: NonEmptyText | UnsetType = UNSET
    session: NonEmptyText | UnsetType = UNSET
    snapshot: NonEmptyText | UnsetType = UNSET
    request: OpenObject | UnsetType = UNSET  # CheckRequest
    cases: list[OpenObject] | OpenObject | UnsetType = UNSET  # CaseFile or CaseTraces, see `find_check_problems`
    tags: list[NonEmptyText] = field(default_factory=list)
    timeout: Annotated[float, Meta(ge=0, le=TIMEOUT_MAX_S)] = 60
    runs: RunCount | UnsetType = UNSET
    pass_rate: PassRate | UnsetType = UNSET
    margin: PassRate | UnsetType = UNSET
    fixtures: Fixtures = Fixtures()


class CheckList(Struct, forbid_unknown_fields=True, frozen=True):
    """A file with several checks."""

    tests: Annotated[list[Check], Meta(min_length=1)]


class CheckTemplate(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is known of a check with `cases` before a case fills it: its fields, and what its name and tags are."""

    name: CheckName
    assertions: Annotated[list[Any], Meta(min_length=1)]
    cases: Annotated[list[OpenObject], Meta(min_length=1)] | OpenObject
    tags: list[NonEmptyText] = field(default_factory=list)
    trace_id: Any = None
    session: Any = None
    snapshot: Any = None
    request: Any = None
    timeout: Any = None
    runs: Any = None
    pass_rate: Any = None
    margin: Any = None
    fixtures: Any = None


CHECK_FILE_TYPES = (Check, CheckList)  # what a file may hold, for its JSON Schema


def find_check_problems(check: Check) -> list[ShapeProblem]:
    """What types cannot express: a check has one source, and its numbers belong together."""
    problems: list[ShapeProblem] = []
    sources = [name for name in SOURCES if getattr(check, name) is not UNSET]
    if len(sources) != 1:
        message = f"must have one of {', '.join(SOURCES)}" + (f"; has {' and '.join(sources)}" if sources else "")
        problems.append(ShapeProblem("$", message))
    if check.request is not UNSET:
        problems += [
            ShapeProblem("$.request" + problem.path[1:], problem.message)
            for problem in find_problems(check.request, CheckRequest)
        ]
        if ("messages" in check.request) == ("prompt" in check.request):
            problems.append(ShapeProblem("$.request", "must have messages or a prompt, and not both"))
    if check.margin is not UNSET and check.pass_rate is UNSET:
        problems.append(ShapeProblem("$.margin", "needs a pass_rate that it belongs to"))
    if check.pass_rate == 0:
        problems.append(
            ShapeProblem("$.pass_rate", "must be more than 0: a check that may always fail checks nothing")
        )
    if check.margin is not UNSET and check.pass_rate is not UNSET and not 0 < check.margin < check.pass_rate:
        problems.append(ShapeProblem("$.margin", "must be more than 0 and less than pass_rate"))
    if check.pass_rate is not UNSET and not problems:
        problems += _find_rate_problems(check)
    if check.timeout == 0:
        problems.append(ShapeProblem("$.timeout", "must be more than 0 seconds"))
    return problems


def make_pass_rate_test(check: Check, runs_max: int = RUNS_MAX) -> PassRateTest:
    """The test of a check's pass rate. Without a margin, it is less for a low pass rate.

    Raises:
        ValueError: the test could promise nothing.
    """
    assert check.pass_rate is not UNSET
    margin = min(MARGIN, check.pass_rate / 2) if check.margin is UNSET else check.margin
    return PassRateTest(pass_rate=check.pass_rate, margin=margin, runs_max=runs_max)


def _find_rate_problems(check: Check) -> list[ShapeProblem]:
    """Why the test of a pass rate could promise nothing."""
    try:
        make_pass_rate_test(check)
    except ValueError as exc:
        return [ShapeProblem("$.pass_rate", f"cannot be judged: {exc}")]
    return []
