"""The cassettes of vcrpy that are open in this process, by the identity of their contexts."""

from __future__ import annotations

open_cassettes: set[int] = set()
