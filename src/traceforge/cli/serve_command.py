"""`traceforge serve`: the context store over HTTP."""

from __future__ import annotations

import click

from traceforge.canon import JSONObject
from traceforge.cli.context.context_options import find_or_prepare_database, project_traces_dir, read_upstreams
from traceforge.cli.nonblocking_stderr import NonBlockingStderr
from traceforge.cli.output import port_option, print_ready
from traceforge.context.api.open_store import open_store
from traceforge.context.model_calls import ModelClients
from traceforge.context.project_store import Store
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.http.access import is_loopback
from traceforge.http.bound_socket import bind_socket, socket_url
from traceforge.http.server_limits import STORE_LIMITS
from traceforge.web.janitor import running_janitor
from traceforge.web.project_calls import MODEL_CALLS_MAX
from traceforge.web.request_log import RequestLog, lost_lines
from traceforge.web.store_application import StoreApplication
from traceforge.web.store_service import StoreService
from traceforge.web.uvicorn_server import serve as run

HOST = "127.0.0.1"
PORT = 3080


@click.command()
@port_option(PORT)
@click.option("--host", default=HOST, show_default=True, metavar="H",
              help="Listen on this address; any but loopback needs --auth required.")  # fmt: skip
@click.option("--db", default="", metavar="URL",
              help="Use this database: a file, or postgresql://…  [default: TRACEFORGE_CONTEXT_DB, or "
                   ".ai-tests/context.db in the project]")  # fmt: skip
@click.option("--keys", default="", metavar="FILE",
              help="Use this keyring.  [default: TRACEFORGE_CONTEXT_KEYS, or the database file plus "
                   ".keys]")  # fmt: skip
@click.option("--auth", type=click.Choice(["off", "required"]), default="off", show_default=True,
              help="Require an API key for every request, or for none.")  # fmt: skip
@click.option("--upstream", "upstreams", multiple=True, metavar="NAME=URL",
              help="Send calls for openai, anthropic, gemini or ollama to this URL; repeatable.  [default: "
                   "TRACEFORGE_UPSTREAM_…, or the public address]")  # fmt: skip
@click.option("--connections", type=click.IntRange(1), metavar="N", default=STORE_LIMITS.connections,
              show_default=True,
              help="Keep at most N connections open; then an idle one makes room.")  # fmt: skip
@click.option("--calls-per-project", type=click.IntRange(1), default=MODEL_CALLS_MAX, show_default=True, metavar="N",
              help="Limit the model calls in flight of each project to N, where API keys are required.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout when the server is ready.")
def serve(
    port: int, host: str, db: str, keys: str, auth: str, upstreams: tuple[str, ...], connections: int,
    calls_per_project: int, as_json: bool,
) -> None:  # fmt: skip
    """Serve the context store over HTTP.

    The API is at /v2 and described at /v2/openapi.json; /v1 is for clients of OpenAI. /healthz, /readyz and /metrics
    are for operators.

    Without API keys, everyone who reaches the server can do everything, so it listens on this machine only. Create
    the first key on the command line: traceforge context api-key create --scope admin. SIGTERM or Ctrl-C waits for
    requests in flight and exits with 0. The log goes to stderr, one line of JSON per request.
    """
    if auth == "off" and not is_loopback(host):
        raise click.UsageError(
            f"--host {host} can be reached from other machines: it needs --auth required. "
            "Create a key first: traceforge context api-key create --scope admin"
        )
    store = _open_store(db, keys, upstreams)
    try:
        sock = bind_socket(host, port)
        log = RequestLog(NonBlockingStderr(lost_lines))
        site = StoreApplication(
            StoreService(store, requires_key=auth == "required"), host, log,
            limits=STORE_LIMITS._replace(connections=connections), model_calls_max=calls_per_project,
        )  # fmt: skip
        log.log_event("start", auth=auth, upstreams=_describe_upstreams(store))
        with running_janitor(store, fail=lambda exc: log.failure("janitor", exc)):
            try:
                run(site, sock, lambda: print_ready(socket_url(sock), as_json), site.delete_expired_periodically)
            finally:
                site.close()
        log.log_event("stop")
    finally:
        store.close()


def _describe_upstreams(store: Store) -> JSONObject:
    return {provider: store.models.find_upstream(provider) or "its public address" for provider in PROVIDERS}


def _open_store(db: str, keys: str, upstreams: tuple[str, ...]) -> Store:
    store = open_store(find_or_prepare_database(db), keys=keys or None, traces_dir=project_traces_dir())
    store.models = ModelClients(read_upstreams(upstreams))
    return store
