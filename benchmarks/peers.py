"""The peers of the proxy: how each is installed, outside this repository, and how it is started.

Everything is kept in one cache (`$TRACEFORGE_BENCH_CACHE`, else `~/.cache/traceforge-bench`), so that only the first
run installs. Each forwards to the same upstream; those that can record do, to the disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from load import PATH, NotRunning, Target, free_port, process

CACHE = Path(os.environ.get("TRACEFORGE_BENCH_CACHE") or Path.home() / ".cache" / "traceforge-bench")
INSTALL_SECONDS_MAX = 900
_LITELLM = """
model_list:
  - model_name: gpt-4o
    litellm_params: {{model: openai/gpt-4o, api_base: "{upstream}/v1", api_key: sk-none}}
"""
# Portkey adds headers to the answer that it passes on, which Node.js refuses for one that came from `fetch`: without
# this, every stream ends as an error 500.
_PORTKEY = """
const plain = globalThis.fetch, Answer = globalThis.Response;
globalThis.fetch = async (...asked) => { const got = await plain(...asked); return new Answer(got.body, got); };
"""

Command = Callable[[int, str, Path], list[str]]


class Peer(NamedTuple):
    """A peer, and the form of a call to it; commands get a port, the upstream's address and a folder."""

    name: str
    command: Command
    headers: Callable[[str], Mapping[str, str]] = lambda _: {}
    environment: Mapping[str, str] = {}
    recorded: Callable[[Path], int] | None = None  # counts the calls on the disk, where the peer records


def _python(package: str, name: str, program: str) -> str:
    """A program of a package, in its own virtual environment."""
    return str(Path(python_with([package], name)).with_name(program))


def python_with(packages: Sequence[str], name: str) -> str:
    """A Python that has these packages, in a virtual environment of its own.

    Raises:
        NotRunning: they could not be installed.
    """
    folder = CACHE / name
    python = str(folder / "bin" / "python")
    if not (folder / "done").exists():
        venv.create(folder, with_pip=True)
        _install(name, [python, "-m", "pip", "install", "-q", *packages], folder)
    return python


def _node(package: str, name: str, program: str) -> list[str]:
    """A program of a package, in its own folder."""
    folder = CACHE / name
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _install(name, ["npm", "install", "--silent", "--prefix", str(folder), package], folder)
    return ["node", str(folder / "node_modules" / program)]


def _install(name: str, command: list[str], folder: Path) -> None:
    print(f"  installing {name} (once, into {folder})", file=sys.stderr, flush=True)
    try:
        completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise NotRunning(f"{name} could not be installed: {exc}") from None
    if completed.returncode != 0:
        raise NotRunning(f"{name} could not be installed: {completed.stderr.strip()[-500:]}")
    (folder / "done").touch()


def _mitmproxy(port: int, upstream: str, folder: Path) -> list[str]:
    return [
        _python("mitmproxy", "mitmproxy", "mitmdump"), "-q", "--mode", f"reverse:{upstream}", "--listen-host",
        "127.0.0.1", "--listen-port", str(port), "--set", f"confdir={folder}", "-w", str(folder / "flows"),
    ]  # fmt: skip


def _aimock(port: int, upstream: str, folder: Path) -> list[str]:
    (folder / "fixtures").mkdir()
    return [*aimock_replay(port, folder), "--record", "--provider-openai", upstream]


def aimock_replay(port: int, folder: Path) -> list[str]:
    """aimock, replaying the recordings in a folder."""
    program = _node("@copilotkit/aimock", "aimock", "@copilotkit/aimock/dist/cli.js")
    return [*program, "-p", str(port), "-f", str(folder / "fixtures"), "--log-level", "silent"]


def _reel(port: int, upstream: str, folder: Path) -> list[str]:
    return [*_reel_command("record", port, folder), "--upstream", upstream]


def reel_replay(port: int, folder: Path) -> list[str]:
    """reel-vcr, replaying the recordings in a folder."""
    return [*_reel_command("replay", port, folder), "--timing", "fast"]


def _reel_command(mode: str, port: int, folder: Path) -> list[str]:
    return [_python("reel-vcr", "reel-vcr", "reel"), mode, "-c", str(folder / "cassette.jsonl"), "-p", str(port)]


def _portkey(port: int, upstream: str, folder: Path) -> list[str]:
    del upstream  # Each call names its upstream.
    (folder / "first.cjs").write_text(_PORTKEY)
    node, program = _node("@portkey-ai/gateway", "portkey", "@portkey-ai/gateway/build/start-server.js")
    return [node, "--require", str(folder / "first.cjs"), program, f"--port={port}", "--headless"]


def _litellm(port: int, upstream: str, folder: Path) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(upstream=upstream))
    program = _python("litellm[proxy]", "litellm", "litellm")
    return [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]


PEERS = (
    Peer("aimock", _aimock, recorded=lambda folder: sum(1 for _ in (folder / "fixtures").rglob("*.json"))),
    Peer("mitmproxy", _mitmproxy, recorded=lambda folder: (folder / "flows").read_bytes().count(b"4:type;4:http;")),
    Peer("reel-vcr", _reel, recorded=lambda folder: (folder / "cassette.jsonl").read_bytes().count(b"\n")),
    Peer(
        "portkey",
        _portkey,
        headers=lambda upstream: {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{upstream}/v1"},
    ),
    Peer(
        "litellm",
        _litellm,
        environment={
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
        },
    ),
)


@contextmanager
def running(peer: Peer, upstream: str, folder: Path) -> Iterator[Target]:
    """The peer, in a folder of its own, forwarding to `upstream`.

    Raises:
        NotRunning: it could not be installed or started.
    """
    folder.mkdir()
    port = free_port()
    target = Target(peer.name, port, PATH, peer.headers(upstream))
    with process(peer.command(port, upstream, folder), target, folder, peer.environment) as started:
        yield started
