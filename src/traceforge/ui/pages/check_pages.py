"""The pages about checks: each check over time, one run, and a check that is made of a recorded answer.

Never: runs a check, or writes a check file where CI is set, over an existing one, or one that is not valid.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from traceforge.build_environment import find_ci_refusal
from traceforge.checks.assertions.judge_assertions import EvaluationTools
from traceforge.checks.formats.check_file import read_check_file
from traceforge.checks.runs.check_plan import has_check_files
from traceforge.checks.runs.check_proposal import (
    CheckProposal,
    find_proposed_run,
    make_file_name,
    propose_check_of,
    write_proposal,
)
from traceforge.checks.runs.recorded_answers import RecordedAnswers
from traceforge.checks.runs.stored_reports import REPORTS
from traceforge.config import CHECKS_DIR
from traceforge.errors import InvalidFile, NotFound, PathInUse
from traceforge.redact.redactor import Redactor
from traceforge.traces.trace_store import TraceStore
from traceforge.ui.page_context import Action, Area, AreaPages, PageContext, PageRoute
from traceforge.ui.page_renderer import query_text
from traceforge.ui.pages.request_form import FormFields
from traceforge.ui.views.check_view import list_check_histories, list_check_run, view_check_run

REPORTS_READ_MAX = 50  # Of the newest runs; a report may quote every answer of a large data set.
PROBLEMS_MAX = 5  # Of a check file that is not valid.
ID_CHARS = 8  # Of the call, in the name that is proposed.

AREA = Area("checks", "Checks", "/checks", "k")


class CheckSource(NamedTuple):
    """The call or the session that a check is made of."""

    reference: str
    is_session: bool


class FormProblem(NamedTuple):
    """Why a form was not saved."""

    message: str
    place: str = ""
    hint: str = ""


async def list_checks(request: Request, context: PageContext) -> Response:
    """Each check over time, what does not hold first, and the runs."""
    saved = f"{CHECKS_DIR}/{make_file_name(request.query_params.get('saved', ''))}.yaml"

    def render() -> Response:
        reports, unreadable = REPORTS.read_newest(context.project, REPORTS_READ_MAX)
        is_saved = "saved" in request.query_params and os.path.isfile(os.path.join(context.project, saved))
        return context.render(
            request,
            "checks/list.html",
            area=AREA.name,
            items=[list_check_run(name, report) for name, report in reports],
            histories=list_check_histories(reports),
            unreadable=unreadable,
            saved=saved if is_saved else "",
            has_files=has_check_files(context.project),
        )

    return await context.in_thread(render)


async def show_run(request: Request, context: PageContext) -> Response:
    """One run: every check with its assertions, and the answers for which they do not hold."""
    name = request.path_params["name"]

    def render() -> Response:
        view = view_check_run(name, REPORTS.read(context.project, name))
        return context.render(request, "checks/run.html", area=AREA.name, view=view)

    return await context.in_thread(render)


async def propose_check(request: Request, context: PageContext) -> Response:
    """A check file that holds for a recorded answer, to be edited and saved."""
    source = read_source(request)
    source, text = await context.read_traces(lambda store: _propose(store, context, source))
    return _render_form(request, context, source, text, make_file_name(_title(source)))


async def save_check(request: Request, context: PageContext) -> Response:
    """Write the check file that the form holds, as `traceforge check new` does, and go to the checks."""
    fields: FormFields = request.state.form
    source = read_source(request)
    text, file = fields.get("check").replace("\r\n", "\n"), make_file_name(fields.get("file"))
    if find_write_refusal():
        return _render_form(request, context, source, text, file, status=409)

    def write() -> None:
        read_check_file(text.encode(errors="replace"), f"{file}.yaml")
        write_proposal(context.project, file, CheckProposal(text))

    try:
        await context.in_thread(write)
    except InvalidFile as exc:
        problems = [FormProblem(finding.message, finding.path, finding.hint) for finding in exc.findings]
        return _render_form(request, context, source, text, file, problems=problems[:PROBLEMS_MAX], status=400)
    except PathInUse:
        problem = FormProblem(f"{CHECKS_DIR}/{file}.yaml exists already. Choose another name.")
        return _render_form(request, context, source, text, file, problems=[problem], status=409)
    return RedirectResponse(f"/checks{query_text(saved=file)}", 303)


def find_write_refusal() -> str:
    """Why this server writes no check file; "" if it may."""
    if not find_ci_refusal("ui"):
        return ""
    return "CI is set: a build writes no check file. Start `traceforge ui` on your machine."


def read_source(request: Request) -> CheckSource:
    """What a check is made of, by the address of the page.

    Raises:
        NotFound: the address names nothing.
    """
    trace, session = (request.query_params.get(name, "") for name in ("trace", "session"))
    if not trace and not session:
        raise NotFound("no call is named", hint="Open a call or a session, and choose Make a check.")
    return CheckSource(trace or session, not trace)


def _propose(store: TraceStore, context: PageContext, source: CheckSource) -> tuple[CheckSource, str]:
    tools = EvaluationTools(Redactor.from_config(context.loaded.config))
    recorded = RecordedAnswers(context.loaded, store)
    proposed = find_proposed_run(recorded, source.reference, is_session=source.is_session)
    found_source = source if proposed.is_committed else CheckSource(proposed.run.reference, source.is_session)
    return found_source, propose_check_of(_title(found_source), proposed, tools).check


def _title(source: CheckSource) -> str:
    return f"proposed {source.reference if source.is_session else source.reference[:ID_CHARS]}"


def _render_form(
    request: Request, context: PageContext, source: CheckSource, text: str, file: str, *,
    problems: Sequence[FormProblem] = (), status: int = 200,
) -> Response:  # fmt: skip
    return context.render(
        request,
        "checks/new.html",
        status=status,
        area=AREA.name,
        source=source,
        text=text,
        file=file,
        problems=problems,
        refused_here=find_write_refusal(),
    )


PAGES = AreaPages(
    AREA,
    (
        PageRoute("/checks", list_checks),
        PageRoute("/checks/new", propose_check),
        Action("/checks/new", save_check),
        PageRoute("/checks/{name}", show_run, is_shareable=True),
    ),
)
