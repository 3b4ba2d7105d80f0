"""A plain HTTP client for calls of our own.

In: an address, a body and headers. Out: the response, whatever its status, to be read as it comes. Never: follows a
redirect (the key would go with it), or asks for a compressed answer. `HTTPS_PROXY` and `NO_PROXY` are heeded.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

TIMEOUT_S = 300.0  # For each read: a model may think for minutes before its first byte.
PIECE_BYTES = 1 << 16


class Client:
    """Posts bodies; safe to use from several threads."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._opener = urllib.request.build_opener(_AnyStatus)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Send one request; the response is open.

        Raises:
            OSError, http.client.HTTPException: there is no response; `explain` says why.
        """
        made = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 (http or https: checked)
        made.add_header("accept-encoding", "identity")
        made.add_header("user-agent", self._agent)
        opened: object = self._opener.open(made, timeout=TIMEOUT_S)
        assert isinstance(opened, http.client.HTTPResponse)
        return opened


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """An error is an answer too, and so is a redirect: neither is acted on."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:  # noqa: ANN401 (as its base has it)
        """As it came."""
        return response

    https_response = http_response


def explain(exc: OSError | http.client.HTTPException) -> tuple[str, bool]:
    """What went wrong, for a person; and whether trying again is in vain."""
    reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    match reason:
        case ConnectionRefusedError():
            return "nobody listens there", True
        case socket.gaierror():
            return "the host's name is not known", True
        case ssl.SSLError():
            return f"no secure connection: {reason.reason or reason.strerror}".lower(), True
        case TimeoutError():
            return "no answer came in time", False
        case OSError() if reason.strerror:
            return reason.strerror.lower(), False
    return f"the connection broke: {type(reason).__name__}", False
