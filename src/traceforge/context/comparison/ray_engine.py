"""Replay runs on many machines, as tasks of Ray.

Never: opens the database on another machine: requests are sent there, answers come back. The addresses and API keys
of providers are in the environment of each machine and in the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from traceforge.context.comparison.replay_lanes import ItemAnswers, ItemRequests, run_item
from traceforge.context.model_calls import ModelClients
from traceforge.conversion import decode_msgpack, encode_msgpack
from traceforge.errors import MissingExtra


def run_item_remotely(upstreams: dict[str, str], timeout_s: float, data: bytes) -> bytes:
    """The Ray task: do one item, from bytes to bytes. Its traces stay on the machine where it runs."""
    models = ModelClients(upstreams, timeout_s=timeout_s)
    try:
        return encode_msgpack(run_item(models, decode_msgpack(data, ItemRequests)))
    finally:
        models.close()


class RayEngine:
    """Calls models from tasks of a Ray cluster; starts a local cluster if there is none."""

    def __init__(self, models: ModelClients) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("a replay run on Ray needs ray, which is not installed", "ray") from None
        self._ray: Any = ray
        self._stopped = False
        self._running_tasks: list[Any] = []
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        self._task = ray.remote(run_item_remotely)
        self._client_settings = dict(models.configured_upstreams), models.timeout_s

    def run(
        self, load: Callable[[int], ItemRequests | None], positions: Sequence[int], concurrency: int,
        store_answers: Callable[[ItemAnswers], bool],
    ) -> None:  # fmt: skip
        queued_positions = list(reversed(positions))
        while (queued_positions or self._running_tasks) and not self._stopped:
            while queued_positions and len(self._running_tasks) < concurrency:
                requests = load(queued_positions.pop())
                if requests is not None:
                    self._running_tasks.append(self._task.remote(*self._client_settings, encode_msgpack(requests)))
            finished_tasks, self._running_tasks = self._ray.wait(self._running_tasks, num_returns=1, timeout=1.0)
            for task in finished_tasks:
                answers = decode_msgpack(self._ray.get(task), ItemAnswers)
                if not store_answers(answers):
                    self.stop()

    def stop(self) -> None:
        self._stopped = True
        for task in self._running_tasks:
            with suppress(Exception):  # It has ended, or its machine is gone.
                self._ray.cancel(task, force=True)
