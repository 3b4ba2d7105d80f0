"""`traceforge chat`: serve a chat that can explain its answers."""

from __future__ import annotations

import os
import secrets
from contextlib import nullcontext
from pathlib import Path

import click

from traceforge.canon import JSONObject, json_bytes
from traceforge.chat.chat_server import HOST
from traceforge.chat.chat_server import serve as run
from traceforge.chat.conversation import Chat
from traceforge.chat.conversation_memory import ConversationMemory
from traceforge.chat.model_address import InvalidModelAddress, ModelAddress, find_address
from traceforge.chat.prompt_layers import BUNDLED, PromptFolder
from traceforge.chat.provider_model import ProviderModel
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.nonblocking_stderr import NonBlockingStderr
from traceforge.cli.output import port_option, print_ready
from traceforge.http.bound_socket import bind_socket, socket_url
from traceforge.model_server.http_server import serve_local_model
from traceforge.terminal import escape_json

PORT = 3001
LOCAL_MODEL = "local"
TIMEOUT_S = 120.0
SESSIONS_MAX = 1000
PROVIDERS = ("openai", "anthropic", "gemini", "ollama")


@click.group(cls=SuggestingGroup)
def chat() -> None:
    """Serve a chat that can explain each of its answers."""


@chat.command()
@port_option(PORT)
@click.option("--model", "name", default="", metavar="NAME", help="Ask this model; required with --upstream.")
@click.option(
    "--upstream", default="", metavar="URL",
    help="Ask the model at this URL, or at openai, anthropic, gemini or ollama.  [default: the model server "
         "that comes with TraceForge]",
)  # fmt: skip
@click.option(
    "--provider", type=click.Choice(PROVIDERS), default=None,
    help="Use the API of this provider at a URL.  [default: by its path, else its host, else openai]",
)  # fmt: skip
@click.option(
    "--prompts", type=click.Path(path_type=Path), default=None, metavar="DIR",
    help="Read system.md, developer.md and session.md from this folder.  [default: those that come with TraceForge]",
)  # fmt: skip
@click.option("--key-from", default="", metavar="VARIABLE",
              help="Read the API key for your own URL from this environment variable.")  # fmt: skip
@click.option("--max-tokens", "tokens_max", type=click.IntRange(1), default=None, metavar="N",
              help="Limit the answers of Anthropic, whose API requires a limit.  [default: 1024]")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.1, 3600), default=TIMEOUT_S, show_default=True,
              help="Wait this many seconds for an answer.")  # fmt: skip
@click.option("--sessions-max", type=click.IntRange(1, 1_000_000), default=SESSIONS_MAX, show_default=True,
              help="Remember this many sessions; the least recently used is forgotten first.")  # fmt: skip
@click.option("--token", "with_token", is_flag=True,
              help="Require a random token, which the printed URL has, so that other users of this machine "
                   "cannot ask the model.")  # fmt: skip
@click.option("--debug-trace", is_flag=True,
              help="Print every execution trace on stderr; otherwise none is written.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout when the server is ready.")
def serve(
    port: int, name: str, upstream: str, provider: str | None, prompts: Path | None, key_from: str,
    tokens_max: int | None, timeout_s: float, sessions_max: int, with_token: bool, debug_trace: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Serve a chat on this machine: a page at /, and POST /chat.

    A request has a message and a session_id; "trace": true adds an execution trace of its answer. The last 20
    messages of each conversation are kept in memory and are gone when the server stops. SIGTERM or Ctrl-C waits for
    answers in flight and exits with 0.
    """
    if upstream and not name:
        raise click.UsageError("--upstream needs --model: name the model to ask.")
    if key_from and not upstream:
        raise click.UsageError("--key-from needs --upstream: the bundled model server needs no key.")
    if provider and not upstream:
        raise click.UsageError("--provider needs --upstream: the bundled model server speaks the OpenAI API.")

    loaded = PromptFolder(prompts or BUNDLED)
    if debug_trace:
        _write_log(
            "note: --debug-trace is on: every execution trace that is asked for is printed here, with its message"
        )
    with nullcontext(upstream) if upstream else serve_local_model() as url:
        address = _find_address(url, key_from, provider or "")
        if tokens_max is not None and address.provider != "anthropic":
            raise click.UsageError(
                "--max-tokens is for Anthropic only: other providers get the model and the messages."
            )
        _write_log(f"upstream: {address.url if upstream else 'the model server that comes with TraceForge'}")
        sock = bind_socket(HOST, port)
        model = ProviderModel(address, name or LOCAL_MODEL, timeout_s, tokens_max=tokens_max)
        show_trace = _log_trace if debug_trace else None
        conversation = Chat(
            name or LOCAL_MODEL, model, loaded, ConversationMemory(sessions_max), show_trace=show_trace
        )
        token = secrets.token_urlsafe(24) if with_token else ""
        run(conversation, sock, lambda: print_ready(socket_url(sock), as_json, token), _write_log, token)
    _write_log("stopped")


def _find_address(upstream: str, key_from: str, provider: str) -> ModelAddress:
    try:
        return find_address(upstream, os.environ, key_from, provider)
    except InvalidModelAddress as exc:
        raise click.BadParameter(f"{exc}.", param_hint="--upstream") from None


def _log_trace(trace: JSONObject) -> None:
    _write_log(escape_json(json_bytes(trace)).decode())


_write_log = NonBlockingStderr(lambda count: f"note: {count} lines could not be written here")
