"""Recordings: the Model IO session, its core, its hash and its verifier; and the adapters that make and replay them.

The adapters are imported when they are first named: whoever only verifies pays for no HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from traceforge.modelio.format import model_io_core, model_io_hash, write_session
from traceforge.modelio.verify import Invalid, Options, Valid, Violation, read_session, verify

if TYPE_CHECKING:
    from traceforge.modelio.adapter import Adapter, CallableAdapter, Completion, MockAdapter, Stream
    from traceforge.modelio.asking import Answered, Asking
    from traceforge.modelio.providers import (
        AnthropicAdapter,
        GeminiAdapter,
        OllamaAdapter,
        OpenAIAdapter,
        adapter_for,
    )
    from traceforge.modelio.recording import RecordingAdapter, RecordingSession, recover
    from traceforge.modelio.replaying import ReplayAdapter
    from traceforge.modelio.traces import prompts_of_session

__all__ = [
    "Adapter",
    "Answered",
    "AnthropicAdapter",
    "Asking",
    "CallableAdapter",
    "Completion",
    "GeminiAdapter",
    "Invalid",
    "MockAdapter",
    "OllamaAdapter",
    "OpenAIAdapter",
    "Options",
    "RecordingAdapter",
    "RecordingSession",
    "ReplayAdapter",
    "Stream",
    "Valid",
    "Violation",
    "adapter_for",
    "model_io_core",
    "model_io_hash",
    "prompts_of_session",
    "read_session",
    "recover",
    "verify",
    "write_session",
]

_LAZY = {
    "adapter": ("Adapter", "CallableAdapter", "Completion", "MockAdapter", "Stream"),
    "asking": ("Answered", "Asking"),
    "providers": ("AnthropicAdapter", "GeminiAdapter", "OllamaAdapter", "OpenAIAdapter", "adapter_for"),
    "recording": ("RecordingAdapter", "RecordingSession", "recover"),
    "replaying": ("ReplayAdapter",),
    "traces": ("prompts_of_session",),
}


def __getattr__(name: str) -> object:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(f"traceforge.modelio.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
