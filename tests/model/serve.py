"""The server of llama-cpp-python, as it is or with a context that is new for every request.

    python serve.py WEIGHTS LOG [fresh] [n_batch=8] [n_ubatch=8] …

The address is printed when the model is loaded. As it is, the server keeps the context of the request before, and
evaluates only what follows the part that both prompts begin with: a *reused* KV cache. `fresh` empties it first.
The messages of every request are written to LOG, in the order in which the model gets them, a line each. It runs in
`.venv-model`, where there is no TraceForge.
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
    "n_threads": 1,  # others use this machine too, and one thread never waits for another
    "n_threads_batch": 1,
    "logits_all": False,  # of every token of a prompt, which nobody asks for here
    "verbose": False,
}


def watched(generate: Callable[..., Any], log: str, *, fresh: bool) -> Callable[..., Any]:
    """`generate`, which writes down what it is asked, and with `fresh` forgets what it was asked before."""

    def watch(self: llama_cpp.Llama, messages: list[Any], *rest: Any, **options: Any) -> Any:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps([[one["role"], one["content"]] for one in messages]) + "\n")
        if fresh:
            self.reset()
        return generate(self, messages, *rest, **options)

    return watch


def main() -> None:
    """Serve until somebody ends the process."""
    weights, log, *words = sys.argv[1:]
    llama_cpp.Llama.create_chat_completion = watched(  # type: ignore[method-assign]  # the server calls it by this name
        llama_cpp.Llama.create_chat_completion, log, fresh="fresh" in words
    )
    given = dict(word.split("=", 1) for word in words if "=" in word)
    model = ModelSettings(model=weights, **{**SETTINGS, **given})
    # Without this setting, a stream is broken off as soon as somebody else asks something.
    app = create_app(server_settings=ServerSettings(interrupt_requests=False), model_settings=[model])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201 (who started us waits for it)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
