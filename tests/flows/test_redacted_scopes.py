"""Tests whose names hold secrets: their scopes are stored without them, and are compared all the same."""

from __future__ import annotations

from pathlib import Path

from support.environments import linked_python
from support.gate_project import Site
from support.model_servers import model_server

KEY = "sk-proj-" + "Zx8Qw3Rt7Yp2Lk9Mn4Bv6Cd1Fg5Hj0Sa3Ty7Ui2Op8Er4Wq6Zx"
ADDRESS = "ann.lee@corp-example.org"
APPLICATION = """
import os
import httpx
import pytest

VERB = "Write"


def ask(text):
    body = {{"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60,
            "messages": [{{"role": "user", "content": f"{{VERB}} {{text}}."}}]}}
    answer = httpx.post(f"{{os.environ['OPENAI_BASE_URL']}}/chat/completions", json=body, timeout=60)
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("name", {names!r})
def test_letter(name):
    for number in range(2 if name == "plain" else 1):
        assert ask(f"to {{len(name)}}")
"""


def test_calls_of_tests_whose_names_hold_secrets_are_compared(tmp_path: Path) -> None:
    folder, python = tmp_path / "site", linked_python(tmp_path / "python")
    folder.mkdir()
    (folder / "test_letters.py").write_text(APPLICATION.format(names=[f"a-{KEY}", ADDRESS, "plain"]))
    (folder / "traceforge.config.json").write_text("{}")
    with model_server() as server:
        site = Site(folder, python, server, "test_letters.py")
        ran = site.run("record", *site.pytest("test_letters.py"))
        assert (0, True) == (ran.code, "new: 3" in ran.err), ran
        assert 0 == site.approve().code
        stored = b"".join(file.read_bytes() for file in folder.glob(".ai-snapshots/**/*.json"))
        assert b"a-[REDACTED]]" in stored
        assert not any(secret.encode() in stored for secret in (KEY, ADDRESS))
        passed, plain = site.run("test", *site.pytest("test_letters.py")), site.plugin()
        assert (0, False) == (passed.code, "moved" in passed.err), passed
        assert (0, False) == (plain.code, "moved" in plain.out), plain
        again = site.run("record", *site.pytest("test_letters.py"))
        assert (0, True) == (again.code, "4 answered from snapshots, 0 live" in again.err), again
        assert "new:" not in again.err
        assert "removed" not in again.err
        site.edit('if name == "plain" else 1', 'if name != "plain" else 2', "test_letters.py")
        more, plain_more = site.run("test", *site.pytest("test_letters.py")), site.plugin()
        assert (1, True) == (more.code, "GT6" in more.out + more.err), more
        assert (1, True) == (plain_more.code, "GT6" in plain_more.out), plain_more
