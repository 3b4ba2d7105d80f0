"""Output that all commands share: results go to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import click

from traceforge.build_environment import find_ci_refusal
from traceforge.canon import JSON, ecmascript_bytes, exact_ecmascript_bytes
from traceforge.cli.main import INTERRUPTED
from traceforge.errors import STDOUT_HINT, CannotWrite, InvalidFile
from traceforge.findings import Finding, exit_code
from traceforge.report.text_format import finding_lines
from traceforge.terminal import escape_text, print_json_bytes, print_text, write_raw

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


def port_option(default: int) -> Callable[[Command], Command]:
    """The option `--port` of a command that starts a server."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        default=default,
        show_default=True,
        help="Listen on this port; 0 picks a free one.",
    )


def print_json(document: Mapping[str, JSON]) -> None:
    """Print one document, indented as JavaScript does. It is an object: a list is in one, see `print_json_list`."""
    assert isinstance(document, Mapping)
    print_json_line(exact_ecmascript_bytes(dict(document), indent=2))


def print_json_list(items: Sequence[Mapping[str, JSON]], *, has_more: bool = False) -> None:
    """Print a list in the one shape of all lists, that of the context store; `has_more`: the limit cut it."""
    print_json({"object": "list", "data": [dict(item) for item in items], "has_more": has_more})


def print_json_line(data: bytes) -> None:
    """Print JSON on stdout as it was written, with a line ending."""
    _require_stdout()
    print_json_bytes(data)


def write_stdout(data: bytes) -> None:
    """Write content to stdout: exactly as it is, unless stdout is a terminal."""
    _require_stdout()
    write_raw(data)


def _require_stdout() -> None:
    if sys.stdout is None:  # stdout was closed before the process started.
        raise CannotWrite("the output", "standard output is closed", hint=STDOUT_HINT)


def print_findings_and_exit(
    findings: Iterable[Finding], summary: str, report: Mapping[str, JSON], as_json: bool
) -> NoReturn:
    """Print findings and a summary, or the JSON report, and exit with the findings' code."""
    finding_list = list(findings)
    print_findings(finding_list, summary, report, as_json)
    raise click.exceptions.Exit(int(exit_code(finding_list)))


def print_findings(findings: list[Finding], summary: str, report: Mapping[str, JSON], as_json: bool) -> None:
    """Print findings and a summary, or the JSON report."""
    if as_json:
        print_json(report)
    else:
        if findings:
            print_text(finding_lines(findings))
        print_text(summary)


@contextmanager
def exit_on_refusal(root: str) -> Iterator[None]:
    """Print the findings of a refused write and exit with their code; files are named relative to `root`."""
    try:
        yield
    except InvalidFile as exc:
        findings = [finding._replace(file=os.path.join(root, finding.file)) for finding in exc.findings]
        print_text(finding_lines(findings))
        raise click.exceptions.Exit(int(exit_code(findings))) from None


def print_ready(url: str, as_json: bool, token: str = "") -> None:
    """Print the address of a server that accepts connections; as JSON, also its process id.

    A `token` is for the page at this address: as a fragment, the browser sends it to no server.
    """
    line: dict[str, JSON] = {"url": url, "pid": os.getpid()}
    if token:
        line["token"] = token
    if as_json:
        print_json_line(ecmascript_bytes(line))
    else:
        _require_stdout()
        print_text(f"listening on {url}/#token={token}" if token else f"listening on {url}")


def refuse_in_ci(command: str) -> None:
    """Refuse a command that writes where CI is set: what is approved is written on a developer's machine."""
    if refusal := find_ci_refusal(command):
        raise click.UsageError(refusal)


def has_stderr_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def confirm_or_exit(question: str, declined: str) -> None:
    """Ask a question on stderr; without a yes, print `declined` and exit with the code of Ctrl-C."""
    if not click.confirm(escape_text(question), err=True):
        print_text(declined, err=True)
        raise click.exceptions.Exit(INTERRUPTED)
