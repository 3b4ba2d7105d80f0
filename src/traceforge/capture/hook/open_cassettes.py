"""The cassettes of vcrpy that are open in this process: their contexts, unless a test has dropped one unclosed."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

open_cassettes: WeakSet[Any] = WeakSet()
