"""All that the protocol of tool servers (MCP) has, on both major versions of the SDK: recorded, and replayed without
the server.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge
from support.environments import installed_python
from support.tool_servers import approve_all, copy_tool_servers, read_server_log

pytestmark = pytest.mark.slow

METHODS = [
    "initialize", "tools/list", "tools/list", "resources/list", "resources/read", "prompts/list", "prompts/get",
    "tools/call", "tools/call", "resources/subscribe", "tools/call", "tools/list", "tools/list",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with an application and a tool server that it starts."""
    copy_tool_servers(tmp_path)
    return tmp_path


@pytest.mark.parametrize("environment", ["mcp", "apps"])
def test_the_whole_protocol_replays(folder: Path, environment: str) -> None:
    """Tools in pages, a changed list of them, resources, prompts, log lines, errors, and questions of the server.

    The client names other folders (roots) in each run: its answers there are of a machine, and not compared. How it
    answers an elicitation is compared: on that depends what the server did next.
    """
    command = (str(installed_python(environment)), "-W", "ignore", "whole_client.py")
    recorded = traceforge("record", "--", *command, "3", cwd=folder)
    assert (0, ["started", "call ask", "call fail", "call grow"]) == (recorded.code, read_server_log(folder)), (
        recorded
    )
    approve_all(folder)

    replayed = traceforge("test", "--", *command, "3", cwd=folder)
    changed = traceforge("test", "--", *command, "4", cwd=folder)
    again = traceforge("record", "--", *command, "4", cwd=folder)

    assert (0, recorded.out, []) == (replayed.code, replayed.out, read_server_log(folder)[1:]), replayed
    assert f"GREEN: {len(METHODS)} calls replayed" in replayed.err
    assert all(text in replayed.out for text in ("accept {'n': 3}, 1 roots, because", "log asking", "shrink"))
    assert (1, True) == (changed.code, "the client's answer to a question of the tool server" in changed.err), changed
    assert (3, True) == (again.code, "--fresh" in again.err), again


def test_each_request_of_a_session_is_a_trace(folder: Path) -> None:
    """In the order in which the client made them."""
    traceforge("run", "--", str(installed_python("mcp")), "-W", "ignore", "whole_client.py", "3", cwd=folder)
    listed = json.loads(traceforge("trace", "list", "--json", cwd=folder).out)["data"]
    traces = sorted(listed, key=lambda trace: int(trace["step_index"]))

    assert METHODS == [trace["endpoint"].removeprefix("/whole_server/") for trace in traces]
    assert 1 == len({trace["session_id"] for trace in traces})


CLIENT_THAT_KILLS = """
import os, signal, subprocess, sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}\\n')
server.stdin.flush()
print(len(server.stdout.readline()))
os.killpg(server.pid, signal.SIGKILL)
print(server.wait(), server.stdout.read())
"""


def test_a_client_that_kills_the_group_of_its_server_loses_no_call(folder: Path) -> None:
    """SDKs do so if a server does not end, and what it had said until then is the answer."""
    (folder / "client_that_kills.py").write_text(CLIENT_THAT_KILLS)
    wrapped = (str(COMMAND), "mcp", "wrap", "--", sys.executable, "whole_server.py")
    recorded = traceforge("record", "--", sys.executable, "client_that_kills.py", *wrapped, cwd=folder)

    assert (0, True) == (recorded.code, "new: 1" in recorded.err), recorded
    assert "-9 b" in recorded.out
