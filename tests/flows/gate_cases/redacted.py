"""Redacted parts are compared, or the run is not green."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import sys

from flows.gate_cases.builds import REPOSITORY, make_event
from support.gate_case import (
    IN_PYTEST,
    PROXY,
    PYTEST,
    TEST,
    XDIST,
    Case,
    Checkout,
    Command,
    Configure,
    Replace,
    Write,
    commit_tracked,
    green,
    red,
    unchecked,
)

REDACTED, ADDRESS = "redacted_tests.py", "ada.lovelace@example.org"
KEY = "TRACEFORGE_MATCH_KEY"
APPROVE = Command(("approve", "--policy", "--reason", "A decision"))
BUILD = {"CI": "true", "GITHUB_ACTIONS": "true"}
EVERYWHERE = (*IN_PYTEST, PROXY)


def _address(name: str, after: str) -> Case:
    return red(
        name,
        Replace(REDACTED, ADDRESS, after),
        tests=REDACTED,
        ways=EVERYWHERE,
        says=r"GT[12]|no recorded call matches",
    )


CHANGES = [
    _address("an e-mail address is another", "ada.byron@example.org"),
    _address("an e-mail address is at another host", "ada.lovelace@example.com"),
    _address("an e-mail address has another case", "Ada.Lovelace@example.org"),
    _address("an e-mail address is gone", "somebody"),
    _address("an e-mail address says that it was redacted", "[REDACTED]"),
    _address("an e-mail address stands twice", f"{ADDRESS} or {ADDRESS}"),
    _address("an e-mail address becomes a card number", "4111 1111 1111 1111"),
]


def _push(checkout: Checkout) -> None:
    commit_tracked(checkout)
    make_event(
        checkout, "push", {"before": checkout.git("rev-parse", "HEAD~1"), **REPOSITORY}, GITHUB_REF="refs/heads/main"
    )


def _fork(checkout: Checkout) -> None:
    commit_tracked(checkout)
    names = {
        "head": {"repo": {"full_name": "eve/desk", "fork": True}},
        "base": {"sha": checkout.git("rev-parse", "HEAD~1")},
    }
    names["base"]["repo"] = {"full_name": "ada/desk"}
    make_event(checkout, "pull_request", {"pull_request": names, "repository": {"full_name": "ada/desk"}}, GITHUB_REPOSITORY="ada/desk",
           GITHUB_REF="refs/pull/1/merge", GITHUB_SHA="0" * 40)  # fmt: skip


def _own_branch(checkout: Checkout) -> None:
    _fork(checkout)
    path = checkout.folder.parent / "event.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace("eve/desk", "ada/desk").replace('"fork": true', '"fork": false')
    )


UNCOMPARED = [
    unchecked("another key is there and nothing was redacted", variables={KEY: "another"}, ways=(TEST, PYTEST), says="wrong key"),
    unchecked("the match key is missing", unset=(KEY,), tests=REDACTED, says=KEY, ways=EVERYWHERE),
    unchecked("the match key is empty", variables={KEY: ""}, tests=REDACTED, says=KEY, ways=(TEST, PYTEST)),
    unchecked("the match key is another", variables={KEY: "another"}, tests=REDACTED, says="wrong key", ways=EVERYWHERE),
    unchecked("the match key is missing and the address is another", Replace(REDACTED, ADDRESS, "ada.byron@example.org"),
              unset=(KEY,), tests=REDACTED, says=KEY, ways=(TEST, PYTEST)),
    unchecked("the match key is missing in a build", unset=(KEY,), variables=BUILD, tests=REDACTED, says=KEY, ways=(TEST, PYTEST)),
    unchecked("the match key is missing in a push though forks are counted", Configure({"match": {"redacted": "forks"}}), APPROVE,
              _push, unset=(KEY,), tests=REDACTED, says=KEY, ways=(TEST,)),
    unchecked("the match key is missing in a pull request of our own", Configure({"match": {"redacted": "forks"}}), APPROVE, _own_branch,
              unset=(KEY,), tests=REDACTED, says=KEY, ways=(TEST,)),
    unchecked("the match key is missing in a pull request of a fork, and nobody allowed that", _fork, unset=(KEY,), tests=REDACTED, says=KEY,
              ways=(TEST, PYTEST)),
    unchecked("init mints no second key", Command(("init",)), unset=(KEY,), tests=REDACTED, says="key", ways=(TEST, PYTEST)),
]  # fmt: skip


def _key_file(checkout: Checkout) -> None:
    key = checkout.variables.pop(KEY)
    Write(".ai-tests/.gitignore", "*\n")(checkout)
    Write(".ai-tests/match.key", f"{key}\n")(checkout)


def _padded_key(checkout: Checkout) -> None:
    checkout.variables[KEY] = f"  {checkout.variables[KEY]}\n"


def _clean_after_init(checkout: Checkout) -> None:
    Command(("init",))(checkout)
    assert "" == checkout.git("status", "--porcelain"), checkout.git("status", "--porcelain")


def _record_twins(checkout: Checkout) -> None:
    """Two prompts that differ only in an address, with different answers."""
    text = "import desk\n\n\n" + "\n\n".join(
        f'def test_{name}():\n    assert desk.ask("Send the invoice to {name}@example.org please.")\n'
        for name in ("grace", "alan")
    )
    Write("twins_tests.py", text)(checkout)
    Command(("record", "--", sys.executable, "-m", "pytest", "-q", "twins_tests.py"))(checkout)
    Command(("approve", "--all", "--reason", "Twins"))(checkout)


def _swap_twins(checkout: Checkout) -> None:
    _record_twins(checkout)
    Replace("twins_tests.py", "to grace@", "to alan@")(checkout)


SAME = [
    green("the match key is in its file", _key_file, tests=REDACTED, ways=(TEST, PYTEST, XDIST)),
    green("the match key has white space around it", _padded_key, tests=REDACTED, ways=(TEST, PYTEST)),
    green("no key is there and nothing was redacted", unset=(KEY,), ways=EVERYWHERE),
    green("redacted parts are counted, as somebody approved", Configure({"match": {"redacted": "count"}}), APPROVE, unset=(KEY,),
          tests=REDACTED, ways=(TEST, PYTEST)),
    green("a pull request of a fork has no key, as somebody approved", Configure({"match": {"redacted": "forks"}}), APPROVE,
          _fork, unset=(KEY,), tests=REDACTED,
          ways=(TEST,)),
    green("a teammate runs init in a clone", _clean_after_init, ways=(TEST,)),
    green("two prompts differ only in a redacted part", _record_twins, tests=REDACTED, more="twins_tests.py",
          ways=(TEST, PYTEST, XDIST)),
]  # fmt: skip
TWIN_CHANGES = [
    red("one twin asks what the other asked", _swap_twins, tests=REDACTED, more="twins_tests.py", ways=(TEST, PYTEST), says=r"GT\d"),
]  # fmt: skip

CASES = {
    "a redacted part": CHANGES + TWIN_CHANGES,
    "a redacted part that was not compared": UNCOMPARED,
    "a redacted part that is the same": SAME,
}
