"""A call of the openai SDK, answered in process by `traceforge.replay()`: time added to a canned transport.

The floor is the same SDK and client with a transport that returns the answer at once. The peers are vcrpy
and cassetter, each against its own floor, with the last SDK that they can hook, in their own environment.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import openai

from harness import Row, measure
from load import NotRunning
from peers import python_with
from traceforge.capture.inprocess_replay import replay
from traceforge.replay.player import Player
from traceforge.replay.recorded_response import RecordedResponse

GOAL_US = 100.0  # of CPU time that a call may take longer than with a canned transport
SAME = 1.3  # The spread of equal measurements on a shared machine.
CALLS = 50  # in a round
ROUNDS = 41
COUNTS = (10, 100, 1_000)  # at which peers are measured
PEERS = ("openai<3", "vcrpy", "cassetter")
PEER_SECONDS_MAX = 900
ADDRESS = "https://api.example.com/v1"


class AddedTimeRow(Row):
    """A row about the time added to a call."""

    def text(self) -> str:
        """The row as it is printed."""
        times = f"+{self.ours * 1e6:.0f} µs against +{self.peer * 1e6:.0f} µs of CPU ({self.peer_name})"
        return f"  {self.title:<46} {times:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


class Canned(httpx2.BaseTransport):
    """The floor: the same answer to every request."""

    def __init__(self, answer: RecordedResponse) -> None:
        self._body = answer.body
        length = ("Content-Length", str(len(self._body)))
        self._headers = [(name.encode(), value.encode()) for name, value in (*answer.headers, length)]

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=self._headers, stream=httpx2.ByteStream(self._body))


class SdkClients:
    """The SDK with a normal transport and with a canned one."""

    def __init__(self, answer: RecordedResponse, text: str, address: str = ADDRESS) -> None:
        self._text = text
        client = openai.DefaultHttpxClient(transport=Canned(answer))
        self._floor = openai.OpenAI(api_key="none", base_url=address, http_client=client)
        self._ours = openai.OpenAI(api_key="none", base_url=address)

    def measure_added(self, player: Player, count: int, *, repeated: bool = False) -> tuple[float, float]:
        """Seconds of CPU added to a call, and those without us; the key of a `repeated` request is cached."""
        numbers = [number * max(1, count // CALLS) % count for number in range(CALLS)]
        with replay(player=player):
            return self.compare(player, numbers, repeated=repeated)

    def compare(
        self, player: Player, numbers: list[int], *, repeated: bool = False, **settings: float
    ) -> tuple[float, float]:
        """The same, inside a running replay; `settings` are further fields of the request."""
        before = _do_nothing if repeated else lambda: _clear_caches(player)
        mine, theirs = measure(
            self._calls(self._ours, numbers, before, **settings),
            self._calls(self._floor, numbers, before, **settings),  # Clearing the caches is no cost of replay.
            ROUNDS, 1, time.process_time,
        )  # fmt: skip
        more = statistics.median(m - t for m, t in zip(mine, theirs, strict=True))
        return more / CALLS, min(theirs) / CALLS

    def _calls(
        self, client: openai.OpenAI, numbers: list[int], before: Callable[[], None], **settings: float
    ) -> Callable[[], None]:
        create: Callable[..., object] = client.chat.completions.create

        def calls() -> None:
            for number in numbers:
                before()
                create(model="m", messages=[{"role": "user", "content": f"{self._text}{number}"}], **settings)

        return calls


def _do_nothing() -> None:
    pass


def _clear_caches(player: Player) -> None:
    """Clear the caches of requests: a round repeats its requests, and a test suite seldom does."""
    player._keyer._requests.clear()
    player._keyer._redactor._redactor._finder.clean_texts.clear()


def sdk_rows(
    answer: RecordedResponse, text: str, player_of: Callable[[int], Player], few: int, many: int
) -> Iterator[Row]:
    """Every comparison; `player_of` makes a player of `count` recordings of the text and a number."""
    sdk = SdkClients(answer, text)
    with TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)  # A replay reads the configuration of the current folder.
        try:
            ours = {count: sdk.measure_added(player_of(count), count) for count in sorted({few, many, *COUNTS})}
            cached = sdk.measure_added(player_of(few), few, repeated=True)
        finally:
            os.chdir(before)
    for count in (few, many):
        more, floor = ours[count]
        result = f"{more * 1e6:+.0f} µs a call, goal {GOAL_US:.0f}"
        title = f"openai, in process, among {count:,}"
        yield Row(title, more + floor, floor, "canned transport", GOAL_US / more / 1e6, result, more * 1e6 <= GOAL_US)
    yield Row(f"the same, asked again, among {few:,}", sum(cached), cached[1], "canned transport",
              GOAL_US / cached[0] / 1e6, f"{cached[0] * 1e6:+.0f} µs a call, goal {GOAL_US:.0f}",
              cached[0] * 1e6 <= GOAL_US)  # fmt: skip
    ratio = ours[many][0] / ours[few][0]
    result = f"{ratio:.2f}x the time, goal {SAME:g}x"
    title = f"what is added among {many:,}"
    yield AddedTimeRow(title, ours[many][0], ours[few][0], f"among {few}", 1 / ratio, result, ratio <= SAME)
    for peer in _peers():
        more, theirs = ours[peer["count"]][0], peer["added_us"] / 1e6
        result = f"{theirs / more:.1f}x as fast, goal 1x"
        name = f"openai, in process, among {peer['count']:,}"
        yield AddedTimeRow(name, more, theirs, peer["name"], theirs / more, result, theirs >= more)


def _peers() -> list[dict[str, float | int | str]]:
    """The times that the peers add, as they measure them."""
    program = Path(__file__).with_name("replay_peers.py")
    try:
        python = python_with(PEERS, "replay-peers")
        completed = subprocess.run(
            [python, str(program), *map(str, COUNTS)], capture_output=True, text=True, check=False,
            timeout=PEER_SECONDS_MAX,
        )  # fmt: skip
    except (NotRunning, subprocess.TimeoutExpired) as exc:
        sys.exit(f"benchmark: the peers of replay did not run: {exc}")
    if completed.returncode != 0:
        sys.exit(f"benchmark: the peers of replay did not run: {completed.stderr.strip()[-500:]}")
    return [json.loads(line) for line in completed.stdout.splitlines()]
