"""`traceforge context response`: ask models, list and show their answers."""

from __future__ import annotations

from typing import Any

import click
from msgspec import UNSET

from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    add_object_command,
    branch_option,
    idempotency_key_option,
    print_result,
    read_json_text,
    upstream_option,
    use_upstreams,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import Progress
from traceforge.findings import ExitCode
from traceforge.report.context_text import response_line, response_lines
from traceforge.terminal import print_text


@click.group(cls=SuggestingGroup)
def response() -> None:
    """Ask a model about a branch, and show its answers.

    Each response is bound to a snapshot, which pins its input, and to a release of the model.
    """


@response.command()
@click.option("--model", required=True, help="Ask this alias, release id or provider/model.")
@click.option("--session", "session_id", default=None, metavar="ID", help="Ask about a branch of this session.")
@branch_option
@click.option("--input", "text", default=None, metavar="TEXT", help="Append this as the user's message first.")
@click.option("--snapshot", "snapshot_id", default=None, metavar="ID", help="Ask about this snapshot instead.")
@click.option("--params", default="{}", metavar="JSON", help="Send these parameters, such as a temperature, as JSON.")
@upstream_option
@idempotency_key_option
@with_client_of_new_store
def create(
    client: Client, model: str, session_id: str | None, branch_id: str, text: str | None, snapshot_id: str | None,
    params: str, upstreams: tuple[str, ...], idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask a model and wait for its answer.

    Exit code 1: the model gave no answer; the response says why. The input stays on the branch: to try again, use
    --snapshot with the snapshot of that response.
    """
    use_upstreams(client, upstreams)
    value: Any = read_json_text(params, "--params")
    if not isinstance(value, dict):
        raise click.BadParameter("Give a JSON object: {…}.", param_hint="--params")
    response = client.create_response(
        model=model, session_id=session_id, branch_id=branch_id or None, snapshot_id=snapshot_id,
        input=text if text is not None else None, params=value or UNSET, idempotency_key=idempotency_key,
    )  # fmt: skip
    print_result(response, response_lines, as_json)
    if response.status is not Progress.COMPLETED:
        if text is not None and response.status is Progress.FAILED:
            print_text(f"the input is on the branch; to try again, use --snapshot {response.snapshot_id}", err=True)
        raise click.exceptions.Exit(int(ExitCode.FINDINGS))


add_list_command(
    response,
    Client.list_responses,
    response_line,
    EmptyList(
        "responses", "ask a model with `traceforge context response create --model NAME --session ID --input TEXT`"
    ),
)
add_object_command(response, "show", Client.get_response, "RESPONSE", "Show a response.", response_lines)
add_object_command(
    response, "cancel", Client.cancel_response, "RESPONSE", "Cancel a response that is running.", response_lines
)
