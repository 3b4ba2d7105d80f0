"""An application that calls models in every way its SDKs offer. It knows nothing of TraceForge.

The addresses of the providers are in OPENAI_URL, ANTHROPIC_URL, GEMINI_URL and OLLAMA_URL. `MODELS` is a JSON object:
each model to call, and the tool to offer it. A model is named after its case, `openai-async-tools-stream.3`, so that
the scripted provider knows what to answer. `MORE_CASES` names a module with further cases. The result of the SDK, or
its exception, is printed as one line of JSON, with the lines of its case that made the call: those that end with
the comment "call".
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from importlib import import_module
from typing import Any

from sdk_cases import CASES, plain

CASE_MODULES = ("openai_calls", "anthropic_calls", "gemini_calls", "ollama_calls")


def call_sites(function: Any) -> list[list[Any]]:
    """The lines on which a function calls a model."""
    lines, first = inspect.getsourcelines(function)
    return [[first + at, function.__name__] for at, line in enumerate(lines) if line.rstrip().endswith("# call")]


def print_result(name: str, model: str, result: Any) -> None:
    function = CASES[name]
    file = os.path.basename(function.__code__.co_filename)
    line = {"model": model, "result": plain(result), "file": file, "sites": call_sites(function)}
    print(json.dumps(line), flush=True)


def describe_exception(exc: Exception) -> Any:
    return {"exception": type(exc).__name__, "message": str(exc)}


def call_model(model: str, tool: str) -> None:
    """Run the case that the model's name says, outside an event loop."""
    name = model.rpartition(".")[0]
    try:
        result = CASES[name](model, tool)
    except Exception as exc:
        result = describe_exception(exc)
    print_result(name, model, result)


async def call_models_async(models: dict[str, str]) -> None:
    """Run the cases one after the other in one event loop."""
    for model, tool in models.items():
        name = model.rpartition(".")[0]
        try:
            result = await CASES[name](model, tool)
        except Exception as exc:
            result = describe_exception(exc)
        print_result(name, model, result)


def main() -> None:
    models: dict[str, str] = json.loads(os.environ["MODELS"])
    awaited = {model: tool for model, tool in models.items() if "-async-" in model}
    for model, tool in models.items():
        if model not in awaited:
            call_model(model, tool)
    if awaited:
        asyncio.run(call_models_async(awaited))


if __name__ == "__main__":
    for module in (*CASE_MODULES, os.environ.get("MORE_CASES")):
        if module:
            import_module(module)
    main()
