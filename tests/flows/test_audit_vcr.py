"""`traceforge audit vcr`: a suite runs as it is, and what it sends is compared with its own cassettes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.audits import NOT_WRITTEN, audit, report_of
from support.cassette_projects import NAMES, audit_project, install_project
from support.command import traceforge
from support.corpus import PROJECT, need_shared
from support.environments import installed_python
from support.model_servers import model_server

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"

# A recorder with the parts of vcrpy that the audit observes, for the fast cases; the slow ones use vcrpy itself.
RECORDER = """
import json


class Request:
    headers = {"content-type": ["application/json"]}

    def __init__(self, method, uri, body):
        self.method, self.uri, self.body = method, uri, body


def requests_match(sent, recorded, match_on):
    return (sent.method, sent.uri) == (recorded.method, recorded.uri)


class Cassette:
    write_protected = True

    def __init__(self, path):
        self._path, self.data, self.counts = path, [], {}

    def _load(self):
        with open(self._path) as file:
            self.data = [(Request(*entry), "answer") for entry in json.load(file)["interactions"]]

    def _responses(self, request):
        for index, (recorded, response) in enumerate(self.data):
            if requests_match(request, recorded, ()) and index not in self.counts:
                yield index, response

    def can_play_response_for(self, request):
        return None if "ignored" in request.uri else bool([*self._responses(request)])

    def play_response(self, request):
        for index, response in self._responses(request):
            self.counts[index] = 1
            return response

    def send(self, method, uri, body):
        request = Request(method, uri, body)
        if self.can_play_response_for(request):
            return self.play_response(request)
        if "ignored" in uri:
            return "ignored"
        raise RuntimeError("refused")
"""
SUITE = """
import json
import os
import pathlib
import pytest
from vcr.cassette import Cassette

URL = "https://api.openai.com/v1/chat/completions"


@pytest.fixture
def send(request):
    cassette = Cassette(pathlib.Path(__file__).parent / "cassettes" / f"{request.node.originalname}.json")
    cassette._load()
    return lambda uri=URL, method="POST", **body: cassette.send(method, uri, json.dumps(body))
"""


def make_project(folder: Path, tests: str, **cassettes: list[list[str]]) -> Path:
    """A project with a recorder, a test module and its cassettes."""
    (folder / "vcr").mkdir(parents=True)
    (folder / "vcr" / "__init__.py").write_text("")
    (folder / "vcr" / "cassette.py").write_text(RECORDER)
    (folder / "cassettes").mkdir()
    (folder / "test_bot.py").write_text(SUITE + tests)
    for name, interactions in cassettes.items():
        (folder / "cassettes" / f"{name}.json").write_text(json.dumps({"interactions": interactions}))
    return folder


def post(url: str = "https://api.openai.com/v1/chat/completions", **body: object) -> list[str]:
    return ["POST", url, json.dumps(body)]


def list_hashes(folder: Path) -> dict[str, str]:
    """Every file of a folder with its digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_drift_is_grouped_by_cause_and_nothing_is_written(tmp_path: Path) -> None:
    """Two tests that send another limit are one cause; the project is as before."""
    tests = """
@pytest.mark.parametrize("dish", ["soup", "pie"])
def test_dish(send, dish):
    assert send(model="m", max_tokens=32000, prompt=dish) == "answer"


def test_law(send):
    assert send(model="m", max_tokens=8192) == "answer"
"""
    project = make_project(
        tmp_path / "project", tests,
        test_dish=[post(model="m", max_tokens=8192, prompt="soup")], test_law=[post(model="m", max_tokens=8192)],
    )  # fmt: skip
    before = list_hashes(project)

    ran = audit(project)

    assert (1, before) == (ran.code, list_hashes(project))
    assert "max_tokens 8192 → 32000 in 2 tests\n    test_bot.py::test_dish[pie]\n" in ran.err
    assert 'prompt "soup" → "pie" in 1 test\n' in ran.err
    assert "exit code of the command: 0\ntraceforge: DRIFT: 2 of 3 cassette tests (2 of 3 calls)\n" in ran.err
    assert "3 passed" in ran.out


def test_a_suite_that_sends_what_was_recorded_is_green(tmp_path: Path) -> None:
    """A call that a filter of the suite takes out is listed, and does not count if it is no model call."""
    tests = """
def test_law(send):
    assert send(model="m") == "answer"
    assert send("https://ignored.example/") == "ignored"
"""
    project = make_project(tmp_path / "project", tests, test_law=[post(model="m")])

    ran = audit(project, "cassettes")

    assert 0 == ran.code, ran
    assert "NO DRIFT: 1 cassette test (1 call)\n" in ran.err
    assert "and no model calls: 1 call\n    POST https://ignored.example/\n" in ran.err


LAW = """
def test_law(send):
    assert send(model="m") == "answer"
"""


def test_a_call_that_was_removed_is_not_green(tmp_path: Path) -> None:
    """A recorded interaction that no test plays; where a test drifted, that decides."""
    unused = post("https://api.openai.com/v1/embeddings?api_key=" + KEY)
    project = make_project(tmp_path / "project", LAW, test_law=[post(model="m"), unused])
    drifted = make_project(tmp_path / "drifted", LAW, test_law=[post(model="n"), unused])

    ran = audit(project)

    assert 3 == ran.code, ran
    assert "NOT CHECKED: no drift in 1 cassette test (1 call); 1 part could not be checked\n" in ran.err
    assert (
        "recorded, and played by no test: 1 interaction\n    cassettes/test_law.json: interaction 1: POST " in ran.err
    )
    assert ": no test played it any more: the call was removed, or the test did not reach it\n" in ran.err
    assert KEY not in ran.err
    assert 1 == audit(drifted).code


def test_a_call_that_one_of_several_tests_of_a_cassette_no_longer_makes_is_listed(tmp_path: Path) -> None:
    """Another test still plays it, so that it counts as played; the cassette does not say who recorded it."""
    tests = """
@pytest.mark.parametrize("calls", [2, 1])
def test_law(send, calls):
    for name in ("m", "n")[:calls]:
        assert send(f"{URL}?{name}", model=name) == "answer"
"""
    url = "https://api.openai.com/v1/chat/completions"
    project = make_project(
        tmp_path / "project", tests, test_law=[post(f"{url}?m", model="m"), post(f"{url}?n", model="n")]
    )  # fmt: skip

    ran, read = audit(project), report_of(audit(project, "--json"))

    assert 0 == ran.code, ran
    assert "test_bot.py::test_law[1]: 1 of 2 interactions of cassettes/test_law.json\n" in ran.err
    assert "test_law[2]: " not in ran.err
    assert [{"test": "test_bot.py::test_law[1]", "cassette": "cassettes/test_law.json", "played": 1, "of": 2}] == (
        read["partly_played"]
    )


@pytest.mark.parametrize(
    ("words", "code", "not_run"),
    [(("-x",), 3, ["test_bot.py::test_second", "test_bot.py::test_third"]), (("-x", "-k", "law or broken"), 0, [])],
    ids=["stopped", "deselected"],
)
def test_tests_that_never_ran_are_not_green(
    tmp_path: Path, words: tuple[str, ...], code: int, not_run: list[str]
) -> None:
    """A run that stops at a failure says how many tests it left out; those that were deselected are not missed."""
    tests = f"{LAW}\n\ndef test_broken(): assert os.environ.get('NEVER')\n"
    tests += "\n\ndef test_second(send): send(model='n')\n\n\ndef test_third(): pass\n"
    project = make_project(tmp_path / "project", tests, test_law=[post(model="m")], test_second=[post(model="m")])

    ran = audit(project, "--json", words=words)

    report = report_of(ran)
    assert (code, 1, not_run) == (ran.code, report["command_exit_code"], report["not_run"]), ran
    messages = [finding["message"] for finding in report["findings"]]  # type: ignore[attr-defined]
    expected = "2 of the collected tests did not run, so their calls were not compared"
    assert ([expected] if code else []) == messages


def test_a_model_call_that_the_recorder_ignores_is_not_green(tmp_path: Path) -> None:
    """It was answered by nobody knows whom; its address is shown without secrets."""
    url = f"http://127.0.0.1:9/ignored/v1/chat/completions?api_key={KEY}"
    project = make_project(
        tmp_path / "project", f"{LAW}    send({url!r}, model='n')\n", test_law=[post(model="m")]
    )  # fmt: skip

    ran = audit(project)

    assert (3, False) == (ran.code, KEY in ran.err), ran
    assert " was not compared: the recorder of the suite is set to ignore it\n" in ran.err


@pytest.mark.parametrize("blank", ["''", "'REDACTED'", "'{}'"])
def test_a_filter_that_takes_bodies_out_is_not_green(tmp_path: Path, blank: str) -> None:
    """Method and address are compared; the prompt is nowhere, whatever the filter puts in its place."""
    project = make_project(tmp_path / "project", LAW, test_law=[post(model="another")])
    recorder = project / "vcr" / "cassette.py"
    source = recorder.read_text()
    recorder.write_text(
        source.replace(
            "self.method, self.uri, self.body = method, uri, body",
            f"self.method, self.uri, self.body = method, uri, {blank}",
        )
    )

    ran = audit(project)

    assert 3 == ran.code, ran
    assert (
        "POST https://api.openai.com/v1/chat/completions was compared, but its body was not, because a filter of the "
        "suite takes it out of both requests\n" in ran.err
    )


def test_a_record_mode_that_never_plays_is_named(tmp_path: Path) -> None:
    """The call may well match what was recorded."""
    tests = "\n\ndef test_law(send):\n    with pytest.raises(RuntimeError):\n        send(model='m')\n"
    project = make_project(tmp_path / "project", tests, test_law=[post(model="m")])
    recorder = project / "vcr" / "cassette.py"
    source = recorder.read_text().replace("    write_protected = True\n", "    record_mode = 'all'\n")
    recorder.write_text(source.replace("bool([*self._responses(request)])", "False"))

    ran = audit(project, "--json")

    assert 3 == ran.code
    assert [
        "POST https://api.openai.com/v1/chat/completions was not compared: the record mode of its cassette never "
        "plays what was recorded",
        "no recorded interaction was played, so nothing was compared",
    ] == [finding["message"] for finding in report_of(ran)["findings"]]  # type: ignore[attr-defined]


def test_a_cassette_that_changes_during_the_run_is_named(tmp_path: Path) -> None:
    """The recorder of the suite may write; the audit does not call that green."""
    write = "    pathlib.Path('cassettes/test_law.json').write_text('{\"interactions\": []}')\n"
    project = make_project(tmp_path / "project", LAW + write, test_law=[post(model="m")])

    ran = audit(project)

    assert 3 == ran.code, ran
    assert "cassettes/test_law.json: IO the suite changed this cassette during the run, and nothing" in ran.err


def test_a_test_that_left_its_cassette_is_not_green(tmp_path: Path) -> None:
    """It was skipped, or failed as expected, after it loaded one; a test that was skipped before is not missed."""
    tests = f"""{LAW}

@pytest.mark.xfail
def test_known(send):
    assert os.environ.get("NEVER")


def test_left(send):
    pytest.skip("later")


@pytest.mark.skip
def test_off(send):
    send(model="n")
"""
    cassettes = {name: [post(model="m")] for name in ("test_law", "test_known", "test_left", "test_off")}
    project = make_project(tmp_path / "project", tests, **cassettes)

    ran = audit(project, "--json")

    report = report_of(ran)
    assert (3, 0) == (ran.code, report["command_exit_code"])
    message = (
        "the test was skipped, or failed as expected, after it loaded a cassette, so calls that it has not reached "
        "were not compared"
    )
    assert [("test_bot.py::test_known", message), ("test_bot.py::test_left", message)] == [
        (finding["file"], finding["message"])
        for finding in report["findings"]  # type: ignore[attr-defined]
    ]


def test_what_was_not_compared_is_not_green(tmp_path: Path) -> None:
    """A refused call, and a test that failed before its calls; neither is counted as drift."""
    tests = """
def test_law(send):
    assert send(model="m") == "answer"
    with pytest.raises(RuntimeError):
        send("https://api.openai.com/v1/other")


def test_broken(send):
    assert os.environ.get("NEVER")
"""
    project = make_project(tmp_path / "project", tests, test_law=[post(model="m")], test_broken=[post(model="m")])

    ran = audit(project, "--json")

    report = report_of(ran)
    assert (3, 1, {"compared": 1, "drifted": 0}) == (ran.code, report["command_exit_code"], report["tests"])
    assert ["test_bot.py::test_broken"] == report["failed"]
    assert [
        "POST https://api.openai.com/v1/other was not compared: no recorded interaction matches, so the recorder "
        "refused it",
        "the test failed, so calls that it has not reached were not compared",
    ] == [finding["message"] for finding in report["findings"]]  # type: ignore[attr-defined]


def test_a_suite_without_a_known_recorder_says_why(tmp_path: Path) -> None:
    """Nothing was played; a recorder that is not observed is named; a wrong use is exit code 2."""
    project = make_project(tmp_path / "project", "", x=[])
    (project / "betamax.py").write_text("")
    (project / "test_bot.py").write_text("import betamax\n\n\ndef test_a(): pass\n")

    ran = audit(project)

    assert 3 == ran.code
    assert "calls recorded by betamax could not be observed (1)\n" in ran.err
    assert "no recorded interaction was played, so nothing was compared\n" in ran.err
    assert 2 == traceforge("audit", "vcr", "one", "two", "--", "pytest", cwd=project).code
    assert 2 == traceforge("audit", "vcr", "one", "--", cwd=project).code
    assert 3 == audit(project, "nowhere").code


def test_an_unknown_version_of_a_recorder_is_not_green(tmp_path: Path) -> None:
    """The parts that the audit observes are missing: the suite runs, and the audit says so."""
    project = make_project(tmp_path / "project", "\n\ndef test_a(): pass\n")
    recorder = project / "vcr" / "cassette.py"
    recorder.write_text(recorder.read_text().replace("requests_match", "is_same_request"))

    ran = audit(project)

    assert (3, True) == (ran.code, "1 passed" in ran.out)
    assert "the recorder could not be observed (1)" in ran.err


def test_cassettes_that_no_test_loads_are_listed_and_broken_ones_are_named(tmp_path: Path) -> None:
    """Only in the folder that was named."""
    tests = "\n\ndef test_law(send):\n    assert send(model='m') == 'answer'\n"
    project = make_project(tmp_path / "project", tests, test_law=[post(model="m")])
    (project / "cassettes" / "old.yaml").write_text("interactions: []\n")
    assert 0 == audit(project).code
    listed = audit(project, "cassettes")
    (project / "cassettes" / "cut.json").write_text('{"interactions": [')

    ran = audit(project, "cassettes", "--json")

    assert (0, True) == (listed.code, "loaded by no test: 1 cassette\n    cassettes/old.yaml\n" in listed.err)
    assert 3 == ran.code, ran
    assert "not JSON" in ran.err


def test_reports_for_others_hold_the_causes_and_no_secret(tmp_path: Path) -> None:
    """A page and JUnit; a name of a test that looks like markup stays a text."""
    tests = f"""
@pytest.mark.parametrize("name", ["<b>"])
def test_law(send, name):
    assert send(model="m", api_key="{KEY}", prompt="Use {KEY}") == "answer"
"""
    project = make_project(tmp_path / "project", tests, test_law=[post(model="n", api_key="x", prompt="Use it")])

    ran = audit(project, "--html", str(tmp_path / "a.html"), "--junit", str(tmp_path / "a.xml"))

    page, junit = (tmp_path / "a.html").read_text(), (tmp_path / "a.xml").read_text()
    assert 1 == ran.code, ran
    assert "model &quot;m&quot;" not in page
    assert "model &quot;n&quot; → &quot;m&quot; in 1 test" in page
    assert "test_law[&lt;b&gt;]" in page
    suites = {suite.get("name"): suite for suite in ElementTree.fromstring(junit)}
    assert "1" == suites["traceforge audit vcr: tests"].get("failures")
    assert 'model "n" → "m" in 1 test' in (suites["traceforge audit vcr: findings"][1].get("name") or "")
    assert KEY not in ran.err + page + junit


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Path]:
    """A suite with cassettes that pytest-recording wrote, and its Python."""
    python = installed_python("vcr")
    (tmp_path / "tests").mkdir()
    shutil.copy(PROJECT / "tests" / "apps" / "vcr_tests.py", tmp_path / "tests" / "test_vcr.py")
    with model_server() as server:
        (tmp_path / "conftest.py").write_text(f"import os\nos.environ['MODEL_URL'] = {server.url!r}\n")
        command = [str(python), "-m", "pytest", "-q", *NOT_WRITTEN, "--record-mode=once"]
        environ = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=90, check=True)
    return tmp_path, python


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_suite_of_pytest_recording_is_audited(recorded: tuple[Path, Path], words: tuple[str, ...]) -> None:
    """Green as it was recorded; after a change of a setting, each test that sends it drifted."""
    project, python = recorded
    green = audit(project, "--json", python=python, words=words)
    source = project / "tests" / "test_vcr.py"
    source.write_text(source.read_text().replace('"max_tokens": 60}\n', '"max_tokens": 90}\n'))
    before = list_hashes(project)

    red = audit(project, "tests/cassettes", "--json", python=python, words=words)

    assert (0, {"compared": 6, "drifted": 0}) == (green.code, report_of(green)["tests"]), green
    report = report_of(red)
    assert (1, {"compared": 6, "drifted": 4}) == (red.code, report["tests"])
    (cause,) = report["causes"]  # type: ignore[misc]
    assert ("max_tokens 60 → 90", 4) == (cause["change"], len(cause["tests"]))
    assert ([], [], before) == (report["unplayed"], report["unopened"], list_hashes(project))
    assert KEY not in red.err


PAGE = PROJECT / "docs" / "how-to" / "audit-cassettes.md"
DRIFTED = {"llm-anthropic": (21, 23), "llm-gemini": (2, 17)}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_drift_of_real_projects_is_found(tmp_path: Path, name: str) -> None:
    """With the pinned versions; the page has the same numbers, and the files of the project are as before."""
    audited = audit_project(install_project(name, tmp_path))

    assert (1, DRIFTED[name]) == (audited.code, audited.drifted_tests), audited.report
    assert audited.table_row in PAGE.read_text()
    assert name != NAMES[0] or audited.report in PAGE.read_text()
    assert list_hashes(need_shared(f"corpus/projects/{name}")) == list_hashes(tmp_path / name)
