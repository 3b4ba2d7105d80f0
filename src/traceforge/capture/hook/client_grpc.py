"""gRPC: its messages are binary, cannot be redacted without their schema, and are not recorded.

In: channels and their calls as they begin. Out: in a test, a refusal that names the method; where calls are recorded,
a note that names it. Never: reads a message, or changes a call that it lets through.

    the call                                     in a test               where calls are recorded
    a method of a model, or a provider's host    refused, and counted    noted by its name
    another method, on another machine           refused, and counted    nothing: gRPC is noted as loaded
    another method, on this machine              let through             nothing

A channel makes an object for each method, and the object makes the calls. It gets a class of its own, a subclass of
the one it had, whose calls are checked first.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from . import dispatch, tripwire
from .guarded_call import faults
from .patches import Patches
from .watcher import LOADED

# Services that ask a model: of xAI's SDK, Vertex AI, the Gemini API, Triton and the servers that speak its protocol,
# Riva, Cohere's and NVIDIA's, TGI's shards.
MODEL_SERVICES = (
    r"/(?:xai_api\.|google\.cloud\.aiplatform\.|google\.ai\.generativelanguage\.|inference\.GRPCInferenceService/"
    r"|nvidia\.riva\.|generate\.v[0-9]+\.TextGenerationService/|vllm\.|fmaas\.)"
)
_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_CALLS = ("__call__", "with_call", "future")
_SCHEMES = re.compile(r"(?:dns|ipv4|ipv6|xds|google-c2p)(?::///?(?:[^/]*/)?|:)")


def hook(module: Any, patches: Patches) -> None:
    """Check the calls of every channel that is made from now on."""
    dispatch.note_unseen(f"gRPC{LOADED}")
    for owner in (module, getattr(module, "aio", None)):
        for name in ("insecure_channel", "secure_channel") if owner is not None else ():
            patches.wrap(owner, name, lambda make: _wrap_channel(make, patches))


def _wrap_channel(make: Any, patches: Patches) -> Any:
    def watched(target: Any, *args: Any, **options: Any) -> Any:
        host, port = split_target(_text(target))
        if tripwire.current() is not None and port and tripwire.is_loopback(host):
            tripwire.current().check(host, int(port))
        channel = make(target, *args, **options)
        try:
            for kind in _KINDS:
                patches.wrap(type(channel), kind, _wrap_kind)
            channel._traceforge_target = host, port
        except Exception as exc:  # noqa: BLE001 (a class of another version, or of another library)
            _refuse_unchecked(exc)
        return channel

    return watched


def _wrap_kind(make: Any) -> Any:
    """Check what calls one method."""

    def watched(self: Any, method: Any, *args: Any, **options: Any) -> Any:
        caller = make(self, method, *args, **options)
        target = getattr(self, "_traceforge_target", None)
        if target is not None:
            try:
                caller._traceforge_call = (*target, _text(method))
                caller.__class__ = _checked_class(caller.__class__)
            except Exception as exc:  # noqa: BLE001
                _refuse_unchecked(exc)
        return caller

    return watched


def _refuse_unchecked(exc: Exception) -> None:
    """The calls of this object cannot be checked: outside of tests, the application does not notice.

    Raises:
        ConnectionRefusedError: calls are replayed.
    """
    faults.add(exc)
    if dispatch.is_replaying():
        raise ConnectionRefusedError(f"TraceForge replay: calls of gRPC could not be checked: {exc!r}") from exc


@cache
def _checked_class(base: Any) -> Any:
    """A subclass whose calls are checked before they begin."""
    checked = {name: _check_first(getattr(base, name)) for name in _CALLS if hasattr(base, name)}
    return type(base.__name__, (base,), {**checked, "__module__": base.__module__})


def _check_first(call: Any) -> Any:
    def checked(self: Any, *args: Any, **options: Any) -> Any:
        check_call(*self._traceforge_call)
        return call(self, *args, **options)

    return checked


def check_call(host: str, port: str, method: str) -> None:
    """A call is about to begin.

    Raises:
        ConnectionRefusedError: nothing may be sent, and this call cannot be replayed.
    """
    is_model = re.match(MODEL_SERVICES, method) is not None
    is_local = not host or tripwire.is_loopback(host)
    place = f"{host}:{port}" if port else host or "this machine"
    dispatch.check_unrecorded(f"a call of gRPC to {place}, {method},", place, is_model=is_model, is_local=is_local)


def split_target(target: str) -> tuple[str, str]:
    """Host and port of an address in the syntax of gRPC; "" as the host of a Unix socket."""
    if target.startswith(("unix:", "unix-abstract:", "vsock:")):
        return "", ""
    name = _SCHEMES.sub("", target, count=1).partition(",")[0]
    host, _, port = name.rpartition(":")
    if not port.isdigit() or (":" in host and not host.endswith("]")):
        host, port = name, ""
    return host.strip("[]"), port


def _text(value: Any) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, (bytes, bytearray)) else str(value)
