"""The gate inside pytest: on where there are snapshots, silent where there are none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.example_counts import RunLength
from support.gate_project import CALL_COUNT, CHAT, CHAT_CALL_COUNT, CONFIG, TEST_COUNT, Site, make_project
from support.model_servers import model_server

# Each SDK costs a second in each process of a suite, so a short run takes the tests of one of them.
SELECTED, SELECTED_TESTS, SELECTED_CALLS = (
    (("-k", "chat or many or embedding"), 6, 11) if RunLength.is_short else ((), TEST_COUNT, CALL_COUNT)
)
UNCHECKED = 1 if RunLength.is_short else 3  # an embedding, and two messages of Claude

SWALLOWS = """def test_swallows() -> None:
    try:
        chat("Name a salad.")
    except Exception:
        pass"""

SWALLOWED_AT_IMPORT = """from four_providers import chat

try:
    chat("Name a salad.")
except Exception:
    pass
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project recorded with the plugin, in two worker processes or in one, and approved."""
    folder = tmp_path_factory.mktemp("plugged")
    make_project(folder)
    with model_server() as server:
        site = Site(folder, Path("python"), server)
        ran = site.plugin("--traceforge=record", "-n", "1" if RunLength.is_short else "2", *SELECTED)
        counts = f"0 calls answered from snapshots, {SELECTED_CALLS} live"
        assert (0, True) == (ran.code, counts in ran.out), ran.out
        assert 0 == site.approve().code
        yield site


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout of it, and a provider with other answers."""
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_plugin_is_on_in_a_project_with_snapshots(site: Site, workers: str) -> None:
    """Nothing reaches the provider, in one process and in two."""
    ran = site.plugin("-v", "-n", workers)  # with -q, as pytest without either

    assert (0, 0) == (ran.code, site.server.served), ran.out
    assert re.search(r"= traceforge =+\n\d+ calls replayed", ran.out), "an empty line below the title"
    assert f"{TEST_COUNT} passed" in ran.out
    assert f"{CALL_COUNT} calls replayed" in ran.out
    assert ", 3 prompt only" in ran.out


@pytest.mark.slow
def test_the_plugin_is_silent_in_a_project_without_snapshots(tmp_path: Path) -> None:
    """Calls go to the provider, and nothing is printed."""
    make_project(tmp_path)
    with model_server() as server:
        ran = Site(tmp_path, Path("python"), server).plugin("-k", "test_chat_async")

        assert (0, 1) == (ran.code, server.served)
    assert "= traceforge =" not in ran.out
    assert not (tmp_path / ".ai-tests").exists()


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_test_with_an_unapproved_call_fails_with_the_diff(site: Site, workers: str) -> None:
    """Also if it swallowed the error."""
    site.edit("Name a river.", "Name a lake.")
    site.add(SWALLOWS)

    ran = site.plugin("-n", workers, "-k", "test_chat or test_swallows")

    assert (1, 0) == (ran.code, site.server.served)
    assert "2 failed" in ran.out
    assert "[-river-]{+lake+}" in ran.out
    assert "four_providers.py::test_swallows: GT2 this request was never approved" in ran.out
    assert "GT1 the request of" in ran.out
    assert "pytest --traceforge=record" in ran.out


@pytest.mark.slow
def test_unused_snapshots_are_reported_at_the_end(site: Site) -> None:
    """And fail the run, unless they are allowed or their test did not run."""
    site.edit('assert len(embed("soup")) > 3', "pass")

    some = ("-k", "chat_async or embedding")
    ran = site.plugin("-n", "2", *some)
    allowed = site.plugin("--traceforge-allow-unused", *some)
    elsewhere = site.plugin("-k", "chat_async")

    assert (1, 0, 0) == (ran.code, allowed.code, elsewhere.code), ran.out
    assert ("2 passed" in ran.out, 1) == (True, ran.out.count("GT3"))


@pytest.mark.slow
def test_snapshots_of_a_failing_test_are_not_called_unused(site: Site) -> None:
    site.edit('assert len(embed("soup")) > 3', "assert False")

    ran = site.plugin("-k", "chat_async or embedding")

    assert (1, 0) == (ran.code, ran.out.count("GT3"))


@pytest.mark.slow
def test_record_files_changed_calls(site: Site) -> None:
    """The other calls are replayed; after approval it is green."""
    site.edit("Name a river.", "Name a lake.")

    ran = site.plugin("--traceforge=record", "-k", CHAT)

    assert (0, 1) == (ran.code, site.server.served)
    assert f"{CHAT_CALL_COUNT - 1} calls answered from snapshots, 1 live" in ran.out
    assert "changed (request and answer): 1" in ran.out
    assert 0 == site.approve().code
    assert 0 == site.plugin("-k", CHAT).code


def test_a_red_test_names_its_place_once_and_what_is_pending(site: Site) -> None:
    """The place of a finding is the test, so no second line repeats it."""
    site.edit("Name a river.", "Name a lake.")
    site.plugin("--traceforge=record", "-k", "test_chat")

    ran = site.plugin("-k", "test_chat")

    assert 1 == ran.code
    places = [line.partition(": GT1 ")[0] for line in ran.out.splitlines() if ": GT1 " in line]
    assert places
    assert [] == [place for place in places if f"    in {place}\n" in ran.out]
    assert "1 change is pending already; look, and approve what is right" in ran.out


@pytest.mark.slow
def test_calls_of_a_test_marked_as_off_are_counted(site: Site) -> None:
    """They go to the provider."""
    site.add('import pytest\n\n\n@pytest.mark.traceforge("off")\ndef test_live() -> None:\n    assert chat("Now.")')

    ran = site.plugin("-k", "test_live or test_chat_async")

    assert (0, 1) == (ran.code, site.server.served)
    assert "1 call of tests that are marked as off: not checked" in ran.out


@pytest.mark.slow
def test_the_fixture_counts_the_calls_of_a_test(site: Site) -> None:
    """It exists also where the plugin is off."""
    site.add(
        "def test_counts(traceforge) -> None:\n    chat('Name a soup.')\n"
        "    assert (traceforge.active, traceforge.replayed) in [(True, 1), (False, 0)]"
    )

    assert 0 == site.plugin("-k", "test_counts").code
    assert (0, 1) == (site.plugin("-k", "test_counts", "--traceforge=off").code, site.server.served)


def test_a_tree_that_does_not_verify_runs_nothing(site: Site) -> None:
    """Exit code 4: the run could not begin."""
    file = next((site.folder / ".ai-snapshots" / "openai").glob("chat-*.json"))
    file.write_text(file.read_text().replace("Name a soup.", "Name a salad."))

    ran = site.plugin()

    assert (4, True) == (ran.code, "SN3" in ran.err)
    assert "passed" not in ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "no manifest",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("raw responses alone", "empty", "a configuration in between")
        ),
    ],
)
def test_no_change_of_the_tree_switches_the_gate_off(site: Site, change: str) -> None:
    """A folder with that name is enough; the provider is not asked."""
    tree, words = site.folder / ".ai-snapshots", []
    if change == "no manifest":
        (tree / "manifest.json").unlink()
    elif change == "a configuration in between":
        (site.folder / "inner").mkdir()
        (site.folder / "inner" / "traceforge.config.json").write_text("{}")
        (site.folder / "four_providers.py").rename(site.folder / "inner" / "test_inner.py")
        site.tests = "inner/test_inner.py"
        words = ["--rootdir", "inner"]
    else:
        kept = {"wire"} if change == "raw responses alone" else set()
        for path in tree.iterdir():
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    ran = site.plugin("-k", "test_chat_async", *words)

    assert (True, 0) == (ran.code != 0 or "1 call replayed" in ran.out, site.server.served), ran.out


@pytest.mark.slow
def test_no_variable_switches_the_gate_off(site: Site) -> None:
    """Only a process that a TraceForge command really watches is left to that command."""
    site.edit("Name a river.", "Name a lake.")

    ran = site.plugin("-k", "test_chat", TRACEFORGE_RUN='{"plays": true}')

    assert (1, 0) == (ran.code, site.server.served), ran.out
    assert "[-river-]{+lake+}" in ran.out


def test_ci_does_not_record(site: Site) -> None:
    assert (4, True) == ((ran := site.plugin("--traceforge=record", CI="true")).code, "CI is set" in ran.err)


@pytest.mark.slow
def test_ci_replays(site: Site) -> None:
    assert 0 == site.plugin("-k", CHAT, CI="true").code


@pytest.mark.slow
def test_the_plugin_does_nothing_under_a_traceforge_command(site: Site) -> None:
    """`traceforge test -- pytest` has one gate."""
    ran = site.run("test", "--json", "--", shutil.which("python") or "python", "-c", "print()")
    assert 3 == ran.code

    tested = site.run("test", "--json", *_test_command())

    assert 0 == tested.code, tested.err
    assert CHAT_CALL_COUNT == json.loads(tested.err.splitlines()[-1])["replayed"]
    assert "= traceforge =" not in tested.out


KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
SHOWS_KEYS = """import os


def test_keys() -> None:
    assert chat("Name a soup.")
    print("KEYS", sorted(name for name in os.environ if name.endswith("_API_KEY")), os.environ["OPENAI_API_KEY"])"""
EARLY = """import os

import openai

client = openai.OpenAI()


def pytest_unconfigure() -> None:
    with open("after.txt", "a") as file:
        print(os.environ.get("OPENAI_API_KEY"), os.environ.get("GROQ_API_KEY"), file=file)"""


def test_recorded_calls_name_the_keys_that_were_set(recorded: Site) -> None:
    """As `traceforge record` does, from any worker."""
    files = [*(recorded.folder / ".ai-snapshots" / "wire").glob("*.json")]

    assert len(files) > SELECTED_CALLS // 2
    assert [[*KEYS]] * len(files) == [json.loads(file.read_text())["keys"] for file in files]
    assert "sk-nothing-of-value" not in "".join(file.read_text() for file in files)


@pytest.mark.slow
def test_a_suite_needs_no_key(site: Site) -> None:
    """The keys set while recording have dummy values, also for a client in `conftest.py`."""
    (site.folder / "conftest.py").write_text(EARLY)

    ran = site.plugin("-n", "2", *SELECTED, without=KEYS)

    assert (0, 0) == (ran.code, site.server.served), ran.out + ran.err
    assert f"{SELECTED_TESTS} passed" in ran.out
    assert f"{SELECTED_CALLS} calls replayed" in ran.out
    assert f", {UNCHECKED} prompt only" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_tests_see_dummy_keys_only(site: Site, workers: str) -> None:
    """A key that was not set while recording might change the application; afterwards all are restored."""
    site.add(SHOWS_KEYS)
    (site.folder / "conftest.py").write_text(EARLY)

    ran = site.plugin("-rP", "-n", workers, "-k", "test_keys", OPENAI_API_KEY="sk-real", GROQ_API_KEY="gsk-real")

    assert 0 == ran.code, ran.out
    assert "KEYS ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY'] traceforge-test-dummy-key" in ran.out
    assert ["sk-real gsk-real"] * (1 + int(workers)) == (site.folder / "after.txt").read_text().splitlines()


@pytest.mark.slow
def test_a_test_marked_as_off_has_the_real_keys(site: Site) -> None:
    """The test after it has the dummy values again."""
    site.add(
        "import os\n\nimport pytest\n\n\n"
        '@pytest.mark.traceforge("off")\n'
        "def test_live() -> None:\n"
        '    assert ("sk-real", "gsk-real") == (os.environ["OPENAI_API_KEY"], os.environ["GROQ_API_KEY"])\n\n\n'
        "def test_live_no_more() -> None:\n"
        '    assert "sk-real" != os.environ["OPENAI_API_KEY"]\n'
        '    assert "GROQ_API_KEY" not in os.environ'
    )

    ran = site.plugin("-n", "1", "-k", "test_live", OPENAI_API_KEY="sk-real", GROQ_API_KEY="gsk-real")

    assert (0, True) == (ran.code, "2 passed" in ran.out), ran.out


@pytest.mark.slow
def test_a_call_of_conftest_is_replayed_or_fails_the_run(site: Site) -> None:
    """Before collection: an unapproved call does not reach the provider, and fails the run."""
    (site.folder / "conftest.py").write_text(f"import sys\n\nsys.path.insert(0, '.')\n{SWALLOWED_AT_IMPORT}")

    ran = site.plugin("-k", "test_chat_async")

    assert (1, 0) == (ran.code, site.server.served), ran.out
    assert "(outside of the tests): GT2 " in ran.out


CONNECTS = """import asyncio
import http.client
import os
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

PORT = urlsplit(os.environ["OLLAMA_HOST"]).port


def test_plain_socket() -> None:
    with pytest.raises(ConnectionRefusedError, match="192.0.2.1:443 was refused: a test has no network"):
        socket.create_connection(("192.0.2.1", 443), timeout=5)


def test_http_client() -> None:
    with suppress(Exception):
        http.client.HTTPSConnection("models.example.com").request("POST", "/v1/chat/completions")


def test_asyncio() -> None:
    async def connect() -> None:
        await asyncio.open_connection("models.example.org", 8443)

    with suppress(Exception):
        asyncio.run(connect())


def test_uvloop() -> None:
    import uvloop

    async def connect() -> None:
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, "models.example.info", 443)

    with suppress(Exception):
        uvloop.run(connect())


def test_model_on_loopback() -> None:
    with suppress(Exception):
        http.client.HTTPConnection("127.0.0.1", PORT).request("POST", "/api/chat")


def test_path_of_a_model() -> None:
    with suppress(Exception), socket.create_server(("127.0.0.1", 0)) as server:
        http.client.HTTPConnection(*server.getsockname()).request("POST", "/v1/chat/completions")


def test_datagram() -> None:
    with suppress(Exception), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"?", ("192.0.2.7", 53))


def test_telemetry() -> None:
    with suppress(Exception):
        socket.create_connection(("o1.ingest.example.net", 443))


def test_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


@pytest.mark.traceforge("off")
def test_left_alone() -> None:
    with socket.create_connection(("127.0.0.1", PORT)):
        pass
    with socket.socket() as one:
        one.setblocking(False)
        assert "TraceForge" not in os.strerror(one.connect_ex(("192.0.2.1", 443)))
"""
REFUSED = {
    "test_plain_socket": "192.0.2.1:443",
    "test_http_client": "models.example.com:443",
    "test_asyncio": "models.example.org:8443",
    "test_datagram": "192.0.2.7:53",
    "test_uvloop": "models.example.info:443",
}


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_test_that_connects_past_the_hooks_is_refused_and_fails(site: Site, workers: str) -> None:
    """Also if it swallowed the error; loopback is open, except for the ports of models."""
    site.configure({**CONFIG, "test": {"ignore_hosts": ["*.example.net"], "allow_ports": [site.port]}})
    (site.folder / "four_providers.py").write_text(CONNECTS)

    ran = site.plugin("-n", workers, "--traceforge-allow-unused")

    assert (1, 0) == (ran.code, site.server.served), ran.out
    assert "7 failed, 3 passed" in ran.out, ran.out
    for test in ("test_path_of_a_model", "test_model_on_loopback"):  # The address is that of the recording.
        assert f"four_providers.py::{test}: GT5 a connection to 127.0.0.1:" in ran.out, ran.out
    for test, place in REFUSED.items():
        assert 1 == ran.out.count(f"four_providers.py::{test}: GT5 a connection to {place} was refused"), ran.out
    assert "example.net" not in ran.out
    assert "= traceforge =" in ran.out


@pytest.mark.slow
def test_a_connection_outside_of_the_tests_is_refused_too(site: Site) -> None:
    """It is reported at the end, and the network is restored after the suite."""
    (site.folder / "four_providers.py").write_text(
        "import socket\n\ntry:\n    socket.create_connection(('models.example.com', 443))\n"
        "except ConnectionRefusedError:\n    pass\n\n\ndef test_nothing() -> None:\n    pass\n"
    )
    (site.folder / "conftest.py").write_text(
        "import os, socket\nfrom urllib.parse import urlsplit\n\n\ndef pytest_unconfigure() -> None:\n"
        "    url = urlsplit(os.environ['OLLAMA_HOST'])\n"
        "    socket.create_connection((url.hostname, url.port)).close()\n"
        "    open('back.txt', 'w').close()\n"
    )

    ran = site.plugin("--traceforge-allow-unused")

    assert (1, True) == (ran.code, "1 passed" in ran.out), ran.out + ran.err
    assert "(outside of the tests): GT5 a connection to models.example.com:443 was refused" in ran.out
    assert (site.folder / "back.txt").exists()


def _test_command() -> list[str]:
    import sys

    return ["--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHAT, "four_providers.py"]


@pytest.mark.slow
def test_random_order_and_reruns_change_nothing(site: Site) -> None:
    """Tests in reverse, and one that fails first and is rerun."""
    (site.folder / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items): items.reverse()\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    from _pytest.runner import runtestprotocol\n"
        "    runtestprotocol(item, nextitem=item, log=False)\n"
    )

    ran = site.plugin("-k", "message or gemini")

    assert (0, 0) == (ran.code, site.server.served), ran.out
