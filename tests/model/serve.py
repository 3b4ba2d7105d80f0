"""The server of llama-cpp-python, unchanged or with an empty context for every request.

    python serve.py WEIGHTS LOG [fresh] [n_batch=8] [n_ubatch=8] …

The address is printed when the model is loaded. Unchanged, the server keeps the context of the previous request and
evaluates only what follows the common beginning of both prompts: a *reused* KV cache. `fresh` empties it first. The
messages of every request are written to LOG, a line each, in the order in which the model gets them. It runs in
`.venv-model`, without TraceForge.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import llama_cpp
import uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings

SETTINGS: dict[str, Any] = {
    "model_alias": "smollm2-135m",
    "n_ctx": 1024,
    "n_threads": 1,  # the machine is shared, and one thread never waits for another
    "n_threads_batch": 1,
    "logits_all": False,  # not needed for the tokens of a prompt
    "verbose": False,
}


def log_messages(generate: Callable[..., Any], log: str, *, fresh: bool) -> Callable[..., Any]:
    """`generate`, which first logs its messages, and with `fresh` empties the context."""

    def logged(self: llama_cpp.Llama, messages: list[Any], *arguments: Any, **options: Any) -> Any:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps([[message["role"], message["content"]] for message in messages]) + "\n")
        if fresh:
            self.reset()
        return generate(self, messages, *arguments, **options)

    return logged


def main() -> None:
    """Serve until the process is ended."""
    weights, log, *words = sys.argv[1:]
    llama_cpp.Llama.create_chat_completion = log_messages(  # type: ignore[method-assign]  # the server calls it by this name
        llama_cpp.Llama.create_chat_completion, log, fresh="fresh" in words
    )
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    model = ModelSettings(model=weights, **{**SETTINGS, **settings})
    # Without this setting, another request cuts a stream off.
    app = create_app(server_settings=ServerSettings(interrupt_requests=False), model_settings=[model])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201 (the parent process waits for it)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
