"""Where the context store of a project is, and a client of it.

In: an address that a user named, the environment, the folder of a project. Out: the address to open, or a client of a
server. Never: creates a database.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from traceforge.context.api.http_transport import HTTP_HOSTS_VARIABLE
from traceforge.context.api.store_client import Client
from traceforge.files import STATE_DIR

DB_VARIABLE = "TRACEFORGE_CONTEXT_DB"
API_KEY_VARIABLE = "TRACEFORGE_CONTEXT_API_KEY"
DEFAULT_FILE = os.path.join(STATE_DIR, "context.db")


def find_named_database(db: str) -> str:
    """The database or server that `db` or the environment names; "" where neither does."""
    return db or os.environ.get(DB_VARIABLE, "")


def project_database(project: str) -> str:
    """The database of the project in this folder, whether it exists or not."""
    return os.path.join(project, DEFAULT_FILE)


def find_server_address(database: str) -> str | None:
    """The URL of a server, without quotes that a variable was read with; None if a database is named."""
    address = database.strip(" \t\r\n\"'")
    return address if address.lower().startswith(("http://", "https://")) else None


def connect_to_server(address: str) -> Client:
    """A client of a server, with the API key of the environment.

    Raises:
        StoreUnavailable: the URL or the API key cannot be used.
    """
    return Client.connect(
        address, api_key=os.environ.get(API_KEY_VARIABLE), allow_http=_is_allowed_http_host(address)
    )


def _is_allowed_http_host(address: str) -> bool:
    """Whether the environment names the host of a server as one that gets the API key unencrypted."""
    hosts = os.environ.get(HTTP_HOSTS_VARIABLE, "").split(",")
    try:
        return urlsplit(address).hostname in [host.strip().lower() for host in hosts if host.strip()]
    except ValueError:  # The client says what is wrong with it.
        return False
