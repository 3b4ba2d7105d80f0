"""A program that records its own calls in process: what `soak_application` runs.

It prints after each call the number of that call, and how many calls were recorded and could not be recorded so far.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

import httpx

import traceforge
from support.soak.numbered_calls import PATH, answer_pieces, make_request
from traceforge.capture.recorder import open_thread_recorder
from traceforge.config import load_config


def main(provider: str, seed: int, client: str, first: int, pause_seconds: float) -> None:
    """Make calls until a signal comes."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    recorder = open_thread_recorder(load_config("."))
    number = first
    with traceforge.capture(sink=recorder), httpx.Client(base_url=provider, timeout=60, trust_env=False) as http:
        _print({"url": provider})
        while not stopping.wait(pause_seconds):
            request = make_request(seed, client, number)
            response = http.post(PATH, content=request, headers={"content-type": "application/json"})
            assert (200, b"".join(answer_pieces(request))) == (response.status_code, response.content)
            counts = recorder.counts
            _print({"answered": number, "recorded": counts.recorded, "lost": counts.lost + counts.failures})
            number += 1
    counts = recorder.counts
    _print({"ended": True, "recorded": counts.recorded, "lost": counts.lost + counts.failures})


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
