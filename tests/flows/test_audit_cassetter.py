"""`traceforge audit vcr` with cassetter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.audits import NOT_WRITTEN, audit, report_of
from support.environments import installed_python
from support.model_servers import model_server

CASSETTER_SUITE = """
import httpx
import os
import pytest

URL = os.environ.get("MODEL_URL", "http://127.0.0.1:9")
LIMIT = 60


@pytest.mark.vcr
def test_soup():
    body = {"model": "gpt-4.1-mini", "max_tokens": LIMIT, "messages": [{"role": "user", "content": "Name a soup."}]}
    assert httpx.post(f"{URL}/v1/chat/completions", json=body).json()["choices"]
"""


@pytest.mark.slow
def test_a_suite_of_cassetter_is_audited(tmp_path: Path) -> None:
    """Recorded by cassetter, played by cassetter, compared by us."""
    python = installed_python("cassetter")
    source = tmp_path / "test_soup.py"
    source.write_text(CASSETTER_SUITE)
    with model_server() as server:
        (tmp_path / "conftest.py").write_text(f"import os\nos.environ['MODEL_URL'] = {server.url!r}\n")
        command = [str(python), "-m", "pytest", "-q", *NOT_WRITTEN, "--record-mode=once"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
        assert 0 == ran.returncode, ran.stdout
    assert [] != [*tmp_path.rglob("*.yaml")]
    green = audit(tmp_path, "--json", python=python)
    source.write_text(CASSETTER_SUITE.replace("LIMIT = 60", "LIMIT = 90"))

    red = audit(tmp_path, "--json", python=python)

    assert (0, {"compared": 1, "drifted": 0}) == (green.code, report_of(green)["tests"]), green
    assert (1, ["max_tokens 60 → 90"]) == (red.code, [cause["change"] for cause in report_of(red)["causes"]])  # type: ignore[attr-defined]


CASSETTER_SKIP = """
import cassetter
import pytest


@pytest.fixture(scope="module")
def vcr_config():
    def skip(request):
        if b"pie" in (request.body or b""):
            raise cassetter.SkipRecording
        return request

    return {"before_record_request": skip}


"""
CASSETTER_PIE = """

@pytest.mark.vcr
def test_pie():
    body = {"model": "gpt-4.1-mini", "messages": [{"role": "user", "content": "Name a pie."}]}
    assert httpx.post(f"{URL}/v1/chat/completions", json=body).json()["choices"]
"""


@pytest.mark.slow
def test_a_model_call_that_a_filter_of_cassetter_skips_is_not_green(tmp_path: Path) -> None:
    """It goes to the provider, and is in no cassette."""
    python = installed_python("cassetter")
    (tmp_path / "test_soup.py").write_text(CASSETTER_SUITE + CASSETTER_SKIP + CASSETTER_PIE)
    with model_server() as server:
        (tmp_path / "conftest.py").write_text(f"import os\nos.environ['MODEL_URL'] = {server.url!r}\n")
        command = [str(python), "-m", "pytest", "-q", *NOT_WRITTEN, "--record-mode=once"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
        assert 0 == ran.returncode, ran.stdout

        audited = audit(tmp_path, python=python)

    assert 3 == audited.code, audited
    assert "/v1/chat/completions was not compared: the recorder of the suite is set to ignore it\n" in audited.err
