"""Start the web view: its application, its address, and the browser that opens it."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Mapping
from typing import NamedTuple

from traceforge.build_environment import is_ci
from traceforge.config import LoadedConfig
from traceforge.http.bound_socket import bind_socket, socket_url
from traceforge.http.connection_owner import can_tell_owners
from traceforge.http.server_limits import UI_LIMITS, ServerLimits
from traceforge.ui.page_context import PageContext, UiOptions
from traceforge.ui.pages import (
    approval_pages,
    build_pages,
    change_pages,
    check_pages,
    context_input_pages,
    context_pages,
    edit_pages,
    evidence_pages,
    live_pages,
    overview_pages,
    session_pages,
    stream_pages,
    trace_compare_pages,
    trace_pages,
)
from traceforge.ui.ui_access import CODE_PARAMETER, TOKEN_PARAMETER, UiAccess, new_token
from traceforge.ui.ui_application import UiApplication
from traceforge.web.uvicorn_server import serve

# Every area of the web view, in the order of the rail.
AREAS = (
    overview_pages.PAGES,
    trace_pages.PAGES,
    stream_pages.PAGES,
    trace_compare_pages.PAGES,
    edit_pages.PAGES,
    session_pages.PAGES,
    change_pages.PAGES,
    approval_pages.PAGES,
    build_pages.PAGES,
    check_pages.PAGES,
    live_pages.PAGES,
    evidence_pages.PAGES,
    context_pages.PAGES,
    context_input_pages.PAGES,
)


class UiAddress(NamedTuple):
    """Where the server listens, and who may ask."""

    host: str
    port: int
    token: str = ""  # "": a random one.
    allowed_hosts: tuple[str, ...] = ()


class UiServer:
    """A server that is bound to its address and not running yet."""

    def __init__(
        self,
        loaded: LoadedConfig,
        address: UiAddress,
        options: UiOptions,
        report_failure: Callable[[BaseException], None],
        limits: ServerLimits = UI_LIMITS,
    ) -> None:
        """Bind the address.

        Raises:
            CannotListen: it is in use, or does not belong to this machine.
        """
        self.socket: socket.socket = bind_socket(address.host, address.port)
        self.token = address.token or new_token()
        port = self.socket.getsockname()[1]
        access = UiAccess(address.host, port, self.token, address.allowed_hosts)
        self.application = UiApplication(PageContext(loaded, access, options), AREAS, report_failure, limits)

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"{socket_url(self.socket)}/?{TOKEN_PARAMETER}={self.token}"

    @property
    def browser_url(self) -> str:
        """The address for the command line of a browser, which other users can read on Linux: without the token."""
        if not can_tell_owners():
            return self.url
        return f"{socket_url(self.socket)}/?{CODE_PARAMETER}={self.application.access.opening_code}"

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until a signal arrives."""
        try:
            serve(self.application, self.socket, ready)
        finally:
            self.application.close()


def can_open_browser(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a user sits before this process: it has a terminal and a display, and does not run in CI."""
    has_terminal = sys.stdout is not None and sys.stdout.isatty()
    has_display = sys.platform in ("win32", "darwin") or bool(
        environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    )
    return has_terminal and has_display and not is_ci() and not environ.get("SSH_CONNECTION")


def open_browser(url: str) -> None:
    """Open an address in the browser of this user."""
    webbrowser.open(url)
