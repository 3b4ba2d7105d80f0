"""Shares the server between projects: one project's slow calls leave room for those of the others.

Never: limits a server without API keys, which has one project only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from traceforge.context.api.error_responses import ErrorResponse

MODEL_CALLS_MAX = 64  # Of a project, at once.
RETRY_SECONDS = 1


class ModelCallSlot:
    """The right to one model call; released once, when the call has ended."""

    def __init__(self, counts: Counter[str], project_id: str) -> None:
        self._counts = counts
        self._project_id: str | None = project_id
        counts[project_id] += 1

    def release(self) -> None:
        """Make room for another call; a second release does nothing. Called on the loop's thread only."""
        project_id, self._project_id = self._project_id, None
        if project_id is not None:
            self._counts[project_id] -= 1
            if not self._counts[project_id]:
                del self._counts[project_id]


class ProjectCalls:
    """The calls in flight of each project. Used on the loop's thread only."""

    def __init__(self, *, model_calls_max: int, database_calls_max: int, limited: bool) -> None:
        self._model_calls_max = model_calls_max
        self._database_calls_max = database_calls_max
        self._limited = limited
        self.model_calls: Counter[str] = Counter()
        self._database_waits: dict[str, asyncio.Semaphore] = {}
        self._database_calls: Counter[str] = Counter()

    def begin_model_call(self, project_id: str) -> ModelCallSlot:
        """Take a slot for a model call.

        Raises:
            ErrorResponse: the project has as many calls in flight as it may.
        """
        if self._limited and self.model_calls[project_id] >= self._model_calls_max:
            message = f"the project has {self._model_calls_max} model calls in flight; wait for one to end"
            error = ErrorResponse(429, "too_many_calls", message)
            error.headers = {"Retry-After": str(RETRY_SECONDS)}
            raise error
        return ModelCallSlot(self.model_calls, project_id)

    @asynccontextmanager
    async def database_call(self, project_id: str) -> AsyncIterator[None]:
        """Wait while the project uses its share of the database threads."""
        if not self._limited:
            yield
            return
        waits = self._database_waits.setdefault(project_id, asyncio.Semaphore(self._database_calls_max))
        self._database_calls[project_id] += 1
        try:
            async with waits:
                yield
        finally:
            self._database_calls[project_id] -= 1
            if not self._database_calls[project_id]:
                del self._database_calls[project_id], self._database_waits[project_id]
