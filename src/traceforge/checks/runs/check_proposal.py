"""A check file that is proposed for recorded answers: a start for a person, who decides what matters.

In: the id of a trace or a session, or a sample of traces. Out: the text of a check file, and of its data set. Never:
proposes what the recorded answers do not fulfil, or a text that an answer of a model could break out of: every value
is written as JSON, which is YAML, too.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, ascii_json, parse_json
from traceforge.checks.assertions.answer import Answer, FailedCall
from traceforge.checks.assertions.evaluation import evaluate
from traceforge.checks.assertions.judge_assertions import EvaluationTools
from traceforge.checks.assertions.language_detection import detect_language
from traceforge.checks.formats.assertion_types import AnyAssertion
from traceforge.checks.formats.variables import find_variables
from traceforge.checks.runs.recorded_answers import AnsweredRun, RecordedAnswers
from traceforge.config import CHECKS_DIR
from traceforge.conversion import convert
from traceforge.errors import CannotWrite, NotFound, NotJSON, PathInUse
from traceforge.files import make_shared_folder, write_atomic
from traceforge.shape import json_type_name

LENGTH_FACTOR = 2  # An answer may be twice as long as the longest recorded one.
PROPOSED_TAG = "proposed"

_HEAD = """\
# Proposed by `traceforge check new`: each assertion holds for {}. Keep what matters, remove the
# rest, and remove the tag `proposed`. All fields: traceforge schema check
"""


class CheckProposal(NamedTuple):
    """The text of a check file, and of the data set that it names; "" without one."""

    check: str
    cases: str = ""


def propose_check(
    name: str, source: JSONObject, answer: Answer | FailedCall, tools: EvaluationTools
) -> CheckProposal:
    """A check of one recorded answer, which `source` names: `{"trace_id": …}`, `{"snapshot": …}` or `{"session": …}`.

    Raises:
        NotFound: the recorded call has no answer: it failed, or no model was asked.
    """
    assertions = _propose_for_all([answer], tools)
    return CheckProposal(_write_check(name, source, assertions, "the recorded answer"))


class ProposedRun(NamedTuple):
    """The recorded run that a check is proposed for, and the field by which the check names it."""

    field: str  # trace_id, snapshot or session
    run: AnsweredRun

    @property
    def is_committed(self) -> bool:
        """Whether other machines have the run, too: traces and sessions stay on this one."""
        return self.field == "snapshot"


def find_proposed_run(recorded: RecordedAnswers, reference: str, *, is_session: bool) -> ProposedRun:
    """The run of a session or of a trace; where the call of the trace is approved, its snapshot.

    Raises:
        NotFound: no trace or session matches, or several do.
    """
    if is_session:
        return ProposedRun("session", recorded.read_session(reference))
    approved = recorded.find_approved_run(reference)
    if approved is not None:
        return ProposedRun("snapshot", approved)
    return ProposedRun("trace_id", recorded.read_trace(reference))


def propose_check_of(name: str, proposed: ProposedRun, tools: EvaluationTools) -> CheckProposal:
    """A check of a recorded run; of several choices, of the first.

    Raises:
        NotFound: the recorded call has no answer: it failed, or no model was asked.
    """
    answers = proposed.run.answers
    answer = answers if isinstance(answers, FailedCall) else answers[0]
    return propose_check(name, {proposed.field: proposed.run.reference}, answer, tools)


def propose_data_set(
    name: str, file: str, cases: Sequence[tuple[JSONObject, Answer | FailedCall]], sample: int, tools: EvaluationTools
) -> CheckProposal:
    """A check of a sample of recorded answers, whose cases are in `file`.

    Raises:
        NotFound: none of the calls has an answer.
    """
    answered = [case for case in cases if not isinstance(case[1], FailedCall)]
    if not answered:
        raise NotFound("no trace with an answer matches the query", hint="See: traceforge trace list")
    chosen = random.Random(0).sample(answered, min(sample, len(answered)))  # noqa: S311 (the same sample every time)
    assertions = _propose_for_all([answer for _, answer in chosen], tools)
    source: JSONObject = {"trace_id": "{{trace_id}}", "cases": {"file": file}}
    lines = "".join(f"{ascii_json(variables)}\n" for variables, _ in chosen)
    return CheckProposal(_write_check(name, source, assertions, f"{len(chosen)} recorded answers"), lines)


def _propose_for_all(answers: Sequence[Answer | FailedCall], tools: EvaluationTools) -> list[JSONObject]:
    """What holds for every answer, of what each answer suggests."""
    answered = [answer for answer in answers if not isinstance(answer, FailedCall)]
    if not answered:
        reasons = [answer.reason for answer in answers if isinstance(answer, FailedCall)]
        raise NotFound(f"there is no answer to check: {reasons[0]}", hint="Choose another: traceforge trace list")
    suggestions = {ascii_json(each): each for answer in answered for each in _suggest(answer)}
    words_max = max(len(answer.text.split()) for answer in answered)
    if words_max:
        bound: JSONObject = {"type": "length", "max": LENGTH_FACTOR * words_max, "unit": "words"}
        suggestions[ascii_json(bound)] = bound
    return [each for each in suggestions.values() if all(_holds(each, answer, tools) for answer in answered)]


def _suggest(answer: Answer) -> Iterator[JSONObject]:
    if answer.finish_reason:
        yield {"type": "finish_reason", "value": answer.finish_reason}
    yield {"type": "refusal"}
    yield {"type": "no_refusal"}
    yield {"type": "no_pii"}
    for call in answer.tool_calls:
        if any(find_variables(cast("JSON", [call.name, call.arguments]))):
            continue  # A check file cannot say them: they would be filled.
        yield {"type": "tool_called", "tool": call.name}
        if isinstance(call.arguments, dict) and call.arguments:
            yield {"type": "tool_called", "tool": call.name, "arguments": call.arguments}
    try:
        value = parse_json(answer.text.encode("utf-8", "replace"))
    except NotJSON:
        if language := detect_language(answer.text):
            yield {"type": "language", "value": language}
        return
    if isinstance(value, dict | list):
        yield {"type": "json_schema", "schema": infer_schema(value)}


def infer_schema(value: JSON) -> JSONObject:
    """A JSON Schema of the types in a value: every member of an object is required."""
    if isinstance(value, dict):
        members: JSONObject = {name: cast("JSON", infer_schema(member)) for name, member in value.items()}
        return {"type": "object", "required": [*value], "properties": members}
    if isinstance(value, list):
        schemas = {ascii_json(schema): schema for schema in map(infer_schema, value)}
        items: JSONObject = {"items": next(iter(schemas.values()))} if len(schemas) == 1 else {}
        return {"type": "array", **items}
    return {"type": json_type_name(value)}


def _holds(value: JSONObject, answer: Answer, tools: EvaluationTools) -> bool:
    assertion: AnyAssertion = convert(value, AnyAssertion)
    return evaluate(assertion, answer, tools).holds


def _write_check(name: str, source: JSONObject, assertions: Sequence[JSONObject], subject: str) -> str:
    fields: JSONObject = {"name": name, "tags": [PROPOSED_TAG], **source}
    head = "".join(f"{key}: {ascii_json(value)}\n" for key, value in fields.items())
    lines = "".join(f"  - {_assertion_line(assertion)}\n" for assertion in assertions)
    return f"{_HEAD.format(subject)}{head}assertions:\n{lines}"


def _assertion_line(assertion: JSONObject) -> str:
    """A mapping as people write it in YAML: our own words need no quotes; values are JSON, which YAML includes."""
    fields = (f"{key}: {value if key == 'type' else ascii_json(value)}" for key, value in assertion.items())
    return f"{{{', '.join(fields)}}}"


def write_proposal(project: str, name: str, proposal: CheckProposal) -> list[str]:
    """Write the files of a proposal, the data set first; returns their paths.

    Raises:
        PathInUse: there is a file of this name.
        CannotWrite: the disk is full, or we have no permission.
    """
    folder = os.path.join(project, CHECKS_DIR)
    files = {f"{name}.jsonl": proposal.cases, f"{name}.yaml": proposal.check}
    paths = {os.path.join(folder, file): text for file, text in files.items() if text}
    for path in paths:
        if os.path.lexists(path):
            raise PathInUse(f"{os.path.relpath(path)} exists already", hint="Choose another --name, or remove it.")
    try:
        make_shared_folder(folder)
    except OSError as exc:
        raise CannotWrite(folder, exc) from None
    for path, text in paths.items():
        write_atomic(path, text.encode())
    return list(paths)


def make_file_name(name: str) -> str:
    """A file name for a check: its letters and digits, without an ending."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "check"
