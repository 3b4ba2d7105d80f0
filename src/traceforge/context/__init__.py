"""The context store: history that cannot be clobbered, input that is pinned.

`Client` and `AsyncClient` are the store for a program, in this process or on a server; `model.inputs` and
`model.objects` have the types of what they take and give. The packages that a store in this process needs come with
the extra `context`; they are imported where one is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceforge.context.api.store_client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module's attribute)
    """Import the clients when they are asked for: `traceforge verify` needs the snapshot format alone."""
    if name in __all__:
        from traceforge.context.api import store_client

        return getattr(store_client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
