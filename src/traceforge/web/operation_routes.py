"""From a path to its operation.

In: the table. Out: the operation of a method and a path, with the ids in it. Never: walks the table for a request;
a path is found by its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.context.api.operations import Operation

_ANY = "{}"


class RouteMatch(NamedTuple):
    """Where a request leads."""

    operation: Operation
    ids: tuple[str, ...]


class _Node:
    __slots__ = ("below", "methods")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.methods: dict[str, Operation] = {}


class OperationRoutes:
    """All paths of a table."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            node = self._root
            for part in operation.path.strip("/").split("/"):
                node = node.below.setdefault(_ANY if part.startswith("{") else part, _Node())
            assert operation.method not in node.methods, operation.path
            node.methods[operation.method] = operation

    def find(self, method: str, path: str) -> RouteMatch:
        """The operation of a method and a path below /v2; HEAD is GET without its body.

        Raises:
            ErrorResponse: there is none.
        """
        node, ids = self._root, []
        for part in path.removeprefix("/").split("/"):
            below = node.below.get(part)
            if below is None or part == _ANY:
                below = node.below.get(_ANY)
                ids.append(part)
            if below is None or not part:
                raise ErrorResponse(404, "no_such_path", "there is nothing at this path")
            node = below
        if not node.methods:
            raise ErrorResponse(404, "no_such_path", "there is nothing at this path")
        operation = node.methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            raise MethodNotAllowed(tuple(node.methods))
        return RouteMatch(operation, tuple(ids))


class MethodNotAllowed(ErrorResponse):
    """A path that is asked with another method; `allowed` are those it has."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = ", ".join(sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])}))
        super().__init__(405, "method_not_allowed", f"this path is asked with {self.allowed}")
