"""Amazon Bedrock with the clients of today: recorded, approved and replayed offline, without a key of AWS."""

from __future__ import annotations

import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.bedrock_frames import converse_events, exception
from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import installed_python
from support.fake_bedrock import ACCOUNT, FakeBedrock
from traceforge.canon import parse_json

pytestmark = pytest.mark.slow

CALLS = (
    "converse", "converse_profile", "throttled", "denied", "stream", "left_stream", "broken_stream", "invoke",
    "embed", "invoke_stream", "aio", "anthropic", "anthropic_stream", "plain_urllib3",
)  # fmt: skip
SHARED = ("threads", "fork", "threaded_streams", "beside_moto", "profile")
SECRET_KEY, SESSION_TOKEN = "wJalrXUtnFEMIbK7MDENGbPxRfiCYzEXAMPLEKEY0", "IQoJb3JpZ2luX2VjEXAMPLE0123456789abcdef"
REAL_KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAY3TZQ5MVXW2BNHRD", "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_SESSION_TOKEN": SESSION_TOKEN,
}  # fmt: skip
NOWHERE = "http://127.0.0.1:1"


class Project(NamedTuple):
    """An application, and the service that it asks."""

    folder: Path
    server: FakeBedrock

    def run(self, word: str, program: str, *calls: str, url: str = "", **variables: str) -> CommandResult:
        """Run calls of the application under `record` or `test`."""
        command = [str(installed_python("aws")), "-W", "ignore", program, *calls]
        environ = {"BEDROCK_URL": url or self.server.server.url, **variables}
        return traceforge(word, "--", *command, cwd=self.folder, **environ)

    def record(self, program: str, *calls: str, **variables: str) -> CommandResult:
        recorded = self.run("record", program, *calls, **REAL_KEYS, **variables)
        assert 0 == recorded.code, recorded
        approved = traceforge("approve", "--all", "--reason", "as it is", cwd=self.folder)
        assert 0 == approved.code, approved
        return recorded


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with the application, and its service."""
    (tmp_path / ".git").mkdir()
    for file in (PROJECT / "tests" / "apps" / "bedrock").glob("*.py"):
        shutil.copy(file, tmp_path)
    server = FakeBedrock()
    yield Project(tmp_path, server)
    server.server.close()


def wire_answers(folder: Path, name: str) -> list[bytes]:
    """The chunks of the approved raw responses of calls that a function of this name made."""
    chunks: list[bytes] = []
    for file in sorted(folder.glob(f".ai-snapshots/wire/{name}-*.json")):
        document = parse_json(file.read_bytes())
        assert isinstance(document, dict)
        response = document["response"]
        assert isinstance(response, dict)
        for chunk in response["chunks"]:  # type: ignore[union-attr]
            chunks.append(b64decode(chunk["b64"]) if isinstance(chunk, dict) else str(chunk).encode())
    return chunks


def test_every_client_is_replayed_without_keys_and_without_a_network(project: Project) -> None:
    """The same output: streams, errors in them, throttling that botocore repeats, and another account."""
    recorded = project.record("model_calls.py", *CALLS)
    asked = len(project.server.asked)
    program = project.folder / "model_calls.py"
    program.write_text(program.read_text().replace(ACCOUNT, "555566667777"))
    (project.folder / ".ai-tests" / "match.key").unlink()

    replayed = project.run("test", "model_calls.py", *CALLS, url=NOWHERE)

    assert (0, asked) == (replayed.code, len(project.server.asked)), replayed
    assert "GREEN: 16 calls replayed" in replayed.err
    assert recorded.out.replace(", 1]", ", 0]") == replayed.out  # A refused attempt is not approved.
    stored = b"".join(path.read_bytes() for path in project.folder.glob(".ai-*/**/*") if path.is_file())
    secrets = [*REAL_KEYS.values(), ACCOUNT, "AWS4-HMAC-SHA256"]
    assert [] == [secret for secret in secrets if secret.encode() in stored]


def test_the_frames_of_a_stream_are_kept_byte_for_byte(project: Project) -> None:
    """As many chunks as frames came, also the one of an error; a client checks the sum of each."""
    project.record("model_calls.py", "stream", "broken_stream")

    broken = exception("modelStreamErrorException", "The model stopped.")
    frames = [*converse_events("Tea", " time", " now"), *converse_events("Tea")[:2], broken]
    assert sorted(frames) == sorted(wire_answers(project.folder, "stream"))


def test_an_edited_prompt_is_red_in_every_client(project: Project) -> None:
    """The client raises what TraceForge says, after one attempt."""
    calls = ("converse", "stream", "aio")
    project.record("model_calls.py", *calls)
    program = project.folder / "model_calls.py"
    program.write_text(program.read_text().replace("You keep the tea", "You keep the milk"))

    for call in calls:
        red = project.run("test", "model_calls.py", call, url=NOWHERE)

        assert 1 == red.code, red
        assert "You keep the [-tea-]{+milk+}" in red.err
        assert "TraceForge replay: no recorded call matches" in red.err


def test_shared_clients_behave_as_ever(project: Project) -> None:
    """32 threads, a fork, moto for another service, and a profile that no file here has."""
    config = project.folder.parent / "aws-config"
    config.write_text(
        "[profile kitchen]\nregion = us-west-2\n"
        f"aws_access_key_id = AKIAY3TZQ5MVXW2BNHRD\naws_secret_access_key = {SECRET_KEY}\n"
    )
    recorded = project.record("shared_clients.py", *SHARED, AWS_CONFIG_FILE=str(config))
    assert "116 model calls" in recorded.err
    expected = ["threads true", "fork 0", 'threaded_streams ["Tea time now"]']
    expected += ['beside_moto [100000, "You said Beside a mock"]', 'profile "You said As the kitchen"']

    replayed = project.run("test", "shared_clients.py", *SHARED, url=NOWHERE)

    assert expected == recorded.out.splitlines() == replayed.out.splitlines(), replayed
    assert (0, True) == (replayed.code, "GREEN: 116 calls replayed" in replayed.err)


def test_other_services_are_left_alone_and_refused_in_a_test(project: Project) -> None:
    """An upload of a file goes through the same pools."""
    seen = project.run("run", "shared_clients.py", "bucket_upload", **REAL_KEYS)
    assert (0, 'bucket_upload "300000 bytes"\n') == (seen.code, seen.out), seen
    assert "0 model calls seen" in seen.err
    asked = len(project.server.asked)

    refused = project.run("test", "shared_clients.py", "bucket_upload", **REAL_KEYS)

    assert (1, asked) == (refused.code, len(project.server.asked)), refused
    assert "GT5" in refused.err


def test_a_suite_replays_without_keys(project: Project) -> None:
    """Its process has no variable of AWS but those that the test sets."""
    (project.folder / "test_tea.py").write_text(
        "import model_calls\n\n\ndef test_tea():\n    assert 3 == len(model_calls.stream())\n"
    )
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tea.py")
    project.record(*command)

    green = project.run("test", *command, url=NOWHERE)

    assert (0, True) == (green.code, "GREEN: 1 call replayed" in green.err), green
