"""A turn of the chat with an execution trace, against the same turn without."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness import QUICK, Row, at_most
from support.chat_servers import running_chat, write_prompts
from support.upstream import ScriptedResponse, upstream
from traceforge.chat.model_address import find_address
from traceforge.chat.provider_model import ProviderModel

SLOWER_MAX = 1.25  # A trace costs hashes and a dictionary on top of a model call.
COMPLETION = b'{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}'
TURNS = 20  # One round, so that one slow turn does not decide.


def rows() -> Iterator[Row]:
    """One row: turns with and without a trace, alternating in the same server."""
    rounds = 5 if os.environ.get(QUICK) else 25
    with upstream() as model, tempfile.TemporaryDirectory() as folder:
        model.respond_with(ScriptedResponse([COMPLETION]))
        address = find_address(f"{model.url}/v1", {})
        with running_chat(ProviderModel(address, "m-1"), write_prompts(Path(folder) / "prompts")) as chat:

            def turn(trace: bool) -> None:
                body = json.dumps({"message": "hello", "session_id": f"{trace}", "trace": trace}).encode()
                for _ in range(TURNS):
                    assert chat.post(body).status_code == 200

            yield at_most(
                f"{TURNS} turns with a trace",
                lambda: turn(True),
                lambda: turn(False),
                peer_name="without",
                goal=SLOWER_MAX,
                rounds=rounds,
            )
