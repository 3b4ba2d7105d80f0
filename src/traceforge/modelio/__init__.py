"""Model IO recordings: their format, hash and verifier, and the adapters that record and replay them.

Adapters are imported when they are first used: `traceforge verify` needs no HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from traceforge.modelio.recording_format import model_io_core, model_io_hash, write_session
from traceforge.modelio.recording_verifier import (
    InvalidRecording,
    ValidRecording,
    VerifyOptions,
    Violation,
    read_session,
    verify_session,
)

if TYPE_CHECKING:
    from traceforge.modelio.adapter import Adapter, CallableAdapter, Completion, MockAdapter, Stream
    from traceforge.modelio.model_call import ModelCall, ModelResponse
    from traceforge.modelio.provider_adapters import (
        AnthropicAdapter,
        GeminiAdapter,
        OllamaAdapter,
        OpenAIAdapter,
        adapter_for,
    )
    from traceforge.modelio.recording import RecordingAdapter, RecordingSession, recover_recording
    from traceforge.modelio.replay_adapter import ReplayAdapter
    from traceforge.modelio.traces_to_recording import load_session_prompts

__all__ = [
    "Adapter",
    "AnthropicAdapter",
    "CallableAdapter",
    "Completion",
    "GeminiAdapter",
    "InvalidRecording",
    "MockAdapter",
    "ModelCall",
    "ModelResponse",
    "OllamaAdapter",
    "OpenAIAdapter",
    "RecordingAdapter",
    "RecordingSession",
    "ReplayAdapter",
    "Stream",
    "ValidRecording",
    "VerifyOptions",
    "Violation",
    "adapter_for",
    "load_session_prompts",
    "model_io_core",
    "model_io_hash",
    "read_session",
    "recover_recording",
    "verify_session",
    "write_session",
]

_LAZY = {
    "adapter": ("Adapter", "CallableAdapter", "Completion", "MockAdapter", "Stream"),
    "model_call": ("ModelCall", "ModelResponse"),
    "provider_adapters": ("AnthropicAdapter", "GeminiAdapter", "OllamaAdapter", "OpenAIAdapter", "adapter_for"),
    "recording": ("RecordingAdapter", "RecordingSession", "recover_recording"),
    "replay_adapter": ("ReplayAdapter",),
    "traces_to_recording": ("load_session_prompts",),
}


def __getattr__(name: str) -> object:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(f"traceforge.modelio.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
