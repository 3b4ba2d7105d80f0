"""Where a request really goes, where its URL does not say it.

In: the URL of a request, and what its client knows of the way. Out: the URL with the host that the connection is made
to. Never: changes what is sent.

A Unix socket is on this machine. A proxy that code has set gets a plain HTTP request as a whole, and may send it
anywhere; HTTPS goes through it unread, to the host of the URL. A proxy that the environment names is a matter of the
machine, and of no request.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

UNIX_SOCKET_HOST = "localhost"


def find_real_url(url: str, *, unix_socket: Any = None, proxy: Any = None) -> str:
    """The URL with the host of the connection."""
    if unix_socket:
        return _replace_host(url, UNIX_SOCKET_HOST)
    if proxy and url[:5].lower() == "http:" and not _is_in_environment(str(proxy)):
        return _replace_host(url, urlsplit(str(proxy)).netloc.rpartition("@")[2])
    return url


def _replace_host(url: str, host: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{host}{url[url.index('//') + 2 + len(parts.netloc) :]}"


def _is_in_environment(proxy: str) -> bool:
    host = urlsplit(proxy).netloc.rpartition("@")[2]
    values = [value for name, value in os.environ.items() if name.lower().endswith("_proxy")]
    return any(host == (urlsplit(value).netloc or value).rpartition("@")[2].rstrip("/") for value in values)
