"""The context store: history that cannot be clobbered, input that is pinned.

`Client` and `AsyncClient` are the store for a program, in this process or on a server; `model.inputs` and
`model.objects` have the types of their arguments and answers. The clients need the packages of the extra `context`;
the snapshot format in `model` does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceforge.errors import MissingExtra

if TYPE_CHECKING:
    from traceforge.context.api.store_client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module's attribute)
    """Import the clients at their first use: `traceforge verify` needs only the snapshot format.

    Raises:
        MissingExtra: the packages of the extra `context` are not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        clients = import_module("traceforge.context.api.store_client")
    except ImportError as exc:
        raise MissingExtra(f"the context store cannot run here: {exc.name} is not installed", "context") from None
    return getattr(clients, name)
