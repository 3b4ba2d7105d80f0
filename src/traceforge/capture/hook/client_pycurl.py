"""pycurl: libcurl opens its own sockets, and its calls are not recorded.

In: handles as they are run. Out: in a test, a refusal that names the address; where calls are recorded, a note that
names it. Never: reads a body, or changes a request that it lets through.

`Curl` and `CurlMulti` are replaced by subclasses, because types of compiled code cannot be changed. A handle that a
test may run goes to this machine, and to no model.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from . import dispatch, tripwire
from .patches import Patches
from .watcher import LOADED

# What decides where a handle connects: by the name of the option, under which name a handle keeps it.
_OPTIONS = {
    "URL": "url", "UNIX_SOCKET_PATH": "path", "CONNECT_TO": "route", "PRE_PROXY": "pre_proxy", "PROXY": "proxy",
    "RESOLVE": "addresses",
}  # fmt: skip
_ELSEWHERE = ("route", "pre_proxy", "proxy", "addresses")  # They lead away from the host of the URL.
_PORTS = {"https": 443, "http": 80}


def hook(module: Any, patches: Patches) -> None:
    """Check every handle that is made from now on."""
    dispatch.note_unseen(f"pycurl{LOADED}")
    patches.replace(module, "Curl", _make_curl(module))
    patches.replace(module, "CurlMulti", _make_multi(module))


def _make_curl(module: Any) -> Any:
    base: Any = module.Curl
    options = {getattr(module, name): field for name, field in _OPTIONS.items() if hasattr(module, name)}

    class Curl(base):  # type: ignore[misc]  # the class is only known now
        """A handle whose address is checked before it is run."""

        def setopt(self, option: Any, value: Any) -> Any:
            self._note_option(option, value)
            return super().setopt(option, value)

        def setopt_string(self, option: Any, value: Any) -> Any:
            self._note_option(option, value)
            return super().setopt_string(option, value)

        def _note_option(self, option: Any, value: Any) -> None:
            if option in options:
                setattr(self, f"_traceforge_{options[option]}", value)
                if getattr(self, "_traceforge_is_added", False):  # to others, which run without being asked again
                    check_handle(self, module)

        def unsetopt(self, option: Any) -> Any:
            if option in options:
                setattr(self, f"_traceforge_{options[option]}", "")
            return super().unsetopt(option)

        def reset(self) -> Any:
            for name in options.values():
                setattr(self, f"_traceforge_{name}", "")
            return super().reset()

        def duphandle(self) -> Any:
            copy = super().duphandle()
            for name in options.values():
                setattr(copy, f"_traceforge_{name}", getattr(self, f"_traceforge_{name}", ""))
            return copy

        def perform(self) -> Any:
            check_handle(self, module)
            return super().perform()

        def perform_rb(self) -> Any:
            check_handle(self, module)
            return super().perform_rb()

        def perform_rs(self) -> Any:
            check_handle(self, module)
            return super().perform_rs()

    return _named_like(Curl, base)


def _make_multi(module: Any) -> Any:
    base: Any = module.CurlMulti

    class CurlMulti(base):  # type: ignore[misc]
        """Handles that run together: each is checked when it is added, and when its address changes."""

        def add_handle(self, handle: Any) -> Any:
            check_handle(handle, module)
            handle._traceforge_is_added = True
            return super().add_handle(handle)

        def remove_handle(self, handle: Any) -> Any:
            handle._traceforge_is_added = False
            return super().remove_handle(handle)

    return _named_like(CurlMulti, base)


def _named_like(subclass: Any, base: Any) -> Any:
    subclass.__name__, subclass.__qualname__, subclass.__module__ = base.__name__, base.__qualname__, base.__module__
    return subclass


def check_handle(handle: Any, module: Any) -> None:
    """A handle is about to be run.

    Raises:
        pycurl.error: nothing may be sent, and its call cannot be replayed.
    """
    url = _text(getattr(handle, "_traceforge_url", "") or handle.getinfo(module.EFFECTIVE_URL) or "")
    if "://" not in url:
        url = f"http://{url}"  # as libcurl guesses
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        host, port = url, 0
    has_socket = bool(getattr(handle, "_traceforge_path", "")) or url.startswith("file:")
    is_led_away = any(getattr(handle, f"_traceforge_{name}", "") for name in _ELSEWHERE)
    is_local = has_socket or (tripwire.is_loopback(host) and not is_led_away)
    is_model = dispatch.is_watched_address("POST", url)
    try:
        if is_local and not has_socket and port and tripwire.current() is not None:
            tripwire.current().check(host, port)
        place = f"{host}:{port}" if port else host
        dispatch.check_unrecorded(f"a call of pycurl to {place}", place, is_model=is_model, is_local=is_local)
    except ConnectionRefusedError as exc:
        raise module.error(module.E_COULDNT_CONNECT, str(exc)) from None


def _text(value: Any) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, (bytes, bytearray)) else str(value)
