"""Replay runs on many machines: the same work as tasks of Ray.

In: the work of items. Out: what came of it. Never: the database on another machine; only questions go there and
answers come back. Where providers are and who pays is in the environment of each machine, and in what is sent along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from traceforge.context.comparison.replay_lanes import Answers, Work, ask_both
from traceforge.context.responses.model_calls import Models
from traceforge.conversion import decode_msgpack
from traceforge.errors import MissingExtra


def work_there(upstreams: dict[str, str], timeout_s: float, data: bytes) -> bytes:
    """What a task does: the work of one item, from bytes to bytes. Its traces are kept where it runs."""
    models = Models(upstreams, timeout_s=timeout_s)
    try:
        return msgspec.msgpack.encode(ask_both(models, decode_msgpack(data, Work)))
    finally:
        models.close()


class RayEngine:
    """Asks from the tasks of a Ray cluster; a local one is started where there is none."""

    def __init__(self, models: Models) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("a replay run on Ray needs ray, which is not installed", "ray") from None
        self._ray: Any = ray
        self._over = False
        self._flying: list[Any] = []
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        self._task = ray.remote(work_there)
        self._given = dict(models.given), models.timeout_s

    def run(
        self, load: Callable[[int], Work | None], positions: Sequence[int], concurrency: int,
        take: Callable[[Answers], bool],
    ) -> None:  # fmt: skip
        """As the engine says."""
        left = list(reversed(positions))
        while (left or self._flying) and not self._over:
            while left and len(self._flying) < concurrency:
                work = load(left.pop())
                if work is not None:
                    self._flying.append(self._task.remote(*self._given, msgspec.msgpack.encode(work)))
            done, self._flying = self._ray.wait(self._flying, num_returns=1, timeout=1.0)
            for one in done:
                answers = decode_msgpack(self._ray.get(one), Answers)
                if not take(answers):
                    self.stop()

    def stop(self) -> None:
        """As the engine says."""
        self._over = True
        for one in self._flying:
            with suppress(Exception):  # It is over already, or its machine is gone.
                self._ray.cancel(one, force=True)
