"""A call of the openai SDK, answered in process by `traceforge.replay()`: what it costs more than a canned transport.

The floor is the same SDK and client with a transport that returns the answer at once. Beside us stand vcrpy and
cassetter, each against a floor of its own, with the last SDK that they can hook, in an environment of theirs.
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

GOAL_US = 60.0  # of CPU time that a call may cost more than with a canned transport
SAME = 1.3  # Measurements of the same thing differ by as much on a shared machine.
CALLS = 50  # in a round
ROUNDS = 41
COUNTS = (10, 100, 1_000)  # at which peers are measured
PEERS = ("openai<3", "vcrpy", "cassetter")
PEER_SECONDS_MAX = 900
ADDRESS = "https://api.example.com/v1"


class Added(Row):
    """A row that says what a call costs more."""

    def text(self) -> str:
        """The row as it is printed."""
        times = f"+{self.ours * 1e6:.0f} µs against +{self.peer * 1e6:.0f} µs of CPU ({self.peer_name})"
        return f"  {self.what:<46} {times:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


class Canned(httpx2.BaseTransport):
    """The floor: the answer, whatever is asked."""

    def __init__(self, answer: RecordedResponse) -> None:
        self._body = answer.body
        length = ("Content-Length", str(len(self._body)))
        self._headers = [(name.encode(), value.encode()) for name, value in (*answer.headers, length)]

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """It."""
        return httpx2.Response(200, headers=self._headers, stream=httpx2.ByteStream(self._body))


class Sdk:
    """The SDK twice: as it is, and on a canned transport."""

    def __init__(self, answer: RecordedResponse, text: str) -> None:
        self._text = text
        client = openai.DefaultHttpxClient(transport=Canned(answer))
        self._floor = openai.OpenAI(api_key="none", base_url=ADDRESS, http_client=client)
        self._ours = openai.OpenAI(api_key="none", base_url=ADDRESS)

    def added(self, player: Player, count: int, *, again: bool = False) -> tuple[float, float]:
        """Seconds of CPU that a call costs more, and that it costs without us: one that was never asked before, or
        one that is asked `again`, of which the key is known.
        """
        numbers = [number * max(1, count // CALLS) % count for number in range(CALLS)]
        with replay(player=player):
            return self.compare(player, numbers, again=again)

    def compare(
        self, player: Player, numbers: list[int], *, again: bool = False, **settings: float
    ) -> tuple[float, float]:
        """The same, where a replay is at work already; `settings` are more of what is asked."""
        before = _nothing if again else lambda: _forget(player)
        mine, theirs = measure(
            self._calls(self._ours, numbers, before, **settings),
            self._calls(self._floor, numbers, before, **settings),  # To forget is no part of what a replay costs.
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


def _nothing() -> None:
    pass


def _forget(player: Player) -> None:
    """What it remembers of requests: a round asks the same as the one before, and a test suite seldom does."""
    player._keyer._requests.clear()
    player._keyer._redactor._finder.clean_texts.clear()


def sdk_rows(
    answer: RecordedResponse, text: str, player_of: Callable[[int], Player], few: int, many: int
) -> Iterator[Row]:
    """Every comparison; `player_of` makes a player of so many recordings, which ask the text and a number."""
    sdk = Sdk(answer, text)
    with TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)  # A replay reads the configuration of the project it stands in.
        try:
            ours = {count: sdk.added(player_of(count), count) for count in sorted({few, many, *COUNTS})}
            again = sdk.added(player_of(few), few, again=True)
        finally:
            os.chdir(before)
    for count in (few, many):
        more, floor = ours[count]
        told = f"{more * 1e6:+.0f} µs a call, goal {GOAL_US:.0f}"
        what = f"openai, in process, among {count:,}"
        yield Row(what, more + floor, floor, "canned transport", GOAL_US / more / 1e6, told, more * 1e6 <= GOAL_US)
    yield Row(f"the same, asked again, among {few:,}", sum(again), again[1], "canned transport",
              GOAL_US / again[0] / 1e6, f"{again[0] * 1e6:+.0f} µs a call, goal {GOAL_US:.0f}",
              again[0] * 1e6 <= GOAL_US)  # fmt: skip
    ratio = ours[many][0] / ours[few][0]
    told = f"{ratio:.2f}x the time, goal {SAME:g}x"
    yield Added(
        f"what is added among {many:,}", ours[many][0], ours[few][0], f"among {few}", 1 / ratio, told, ratio <= SAME
    )
    for peer in _peers():
        more, theirs = ours[peer["count"]][0], peer["added_us"] / 1e6
        told = f"{theirs / more:.1f}x as fast, goal 1x"
        name = f"openai, in process, among {peer['count']:,}"
        yield Added(name, more, theirs, peer["name"], theirs / more, told, theirs >= more)


def _peers() -> list[dict[str, float | int | str]]:
    """What the peers add, as they say."""
    program = Path(__file__).with_name("replay_peers.py")
    try:
        python = python_with(PEERS, "replay-peers")
        done = subprocess.run(
            [python, str(program), *map(str, COUNTS)], capture_output=True, text=True, check=False,
            timeout=PEER_SECONDS_MAX,
        )  # fmt: skip
    except (NotRunning, subprocess.TimeoutExpired) as exc:
        sys.exit(f"benchmark: the peers of replay did not run: {exc}")
    if done.returncode != 0:
        sys.exit(f"benchmark: the peers of replay did not run: {done.stderr.strip()[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
