"""Hosts, ports and upstream addresses that a person or a file names.

In: texts. Out: whether they can be used, or why not. Never: resolves a name, or quotes an address that may hold a
password.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

PORT_MAX = 65535

# The first parts of paths that belong to the proxy itself, or to a dialect.
RESERVED_NAMES = frozenset(("healthz", "metrics", "v1", "v1alpha", "v1beta", "v1beta1", "api"))

# Compiled on first use, because most projects configure neither.
_UPSTREAM_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_ASCII_LABELS = r"(?:[^.]{1,63}\.)*[^.]{0,63}"
_PORTS = r"([0-9]{1,5})-([0-9]{1,5})"


def port_range(port: float | str) -> range:
    """One port, or the ports of `first-last`; an empty range where it is neither."""
    if isinstance(port, str):
        match = re.fullmatch(_PORTS, port)
        first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    else:
        first = last = int(port) if port % 1 == 0 else 0  # also where it is no number, or infinite
    return range(first, last + 1) if 0 < first <= last <= PORT_MAX else range(0)


def is_host(host: str) -> bool:
    """Whether a name or address, without brackets, can be that of a host."""
    try:  # The codec takes a hundredth of what the pytest plugin adds to a run, and has nothing to encode in ASCII.
        encoded = re.fullmatch(_ASCII_LABELS, host) if host.isascii() else host.encode("idna")
    except UnicodeError:
        return False
    return bool(host and encoded) and host.isprintable() and not any(char in host for char in ' "#%/<>?@[\\]^`{|}')


def keeps_keys_private(url: str) -> bool:
    """Whether requests to this URL are encrypted, or stay on this machine.

    Only `localhost` and plain addresses stay: a name such as localhost.example.com may be a host on the internet, and
    programs do not agree about what 0x7f.1 means.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def upstream_problem(name: str, url: str) -> str:
    """Why an upstream cannot have this name or address; "" where it can. The text never contains the address."""
    if not re.fullmatch(_UPSTREAM_NAME, name) or name in RESERVED_NAMES:
        return f"{name!r} cannot be the name of an upstream"
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:
        return "the address is not a URL"
    if not (url.isascii() and url.isprintable() and " " not in url):
        return "the URL must be plain ASCII without spaces"
    if address.scheme not in ("http", "https") or not is_host(address.hostname or "") or port == 0:
        return "the URL must begin with http:// or https:// and name a host"
    if "@" in address.netloc:
        return "the URL must not hold a user or a password"
    return "the URL must end with its path" if address.query or address.fragment else ""
