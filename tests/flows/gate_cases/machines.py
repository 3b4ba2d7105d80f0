"""Another machine, another environment, another interpreter: green."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import os
import shutil

from support.gate_case import PYTEST, TEST, XDIST, Append, Checkout, Remove, Replace, Write, green


def _variable(name: str, value: str) -> object:
    return green(f"the variable {name} is {value or 'empty'}", variables={name: value}, ways=(TEST,))


VARIABLES = [
    _variable(name, value)
    for name, value in (
        ("HOME", "/nonexistent"), ("USER", "eve"), ("HOSTNAME", "ci-42"), ("TZ", "Asia/Tokyo"), ("TZ", "America/Lima"), ("LANG", "C"),
        ("LC_ALL", "C.UTF-8"), ("LANG", "tr_TR.UTF-8"), ("PYTHONHASHSEED", "1"), ("PYTHONHASHSEED", "2"), ("COLUMNS", "20"),
        ("NO_COLOR", "1"), ("FORCE_COLOR", "1"), ("CI", "true"), ("TERM", "dumb"), ("OPENAI_API_KEY", "sk-another"),
        ("OPENAI_ORG_ID", "org-1"), ("TMPDIR", "/var/tmp"), ("PYTHONUTF8", "1"), ("PYTHONUNBUFFERED", "1"), ("PYTHONOPTIMIZE", "1"),
        ("HTTP_PROXY", "http://127.0.0.1:1"), ("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "*"), ("DEBUG", "1"),
        ("PYTHONWARNINGS", "ignore"), ("PYTHONNOUSERSITE", "1"), ("XDG_STATE_HOME", "/nonexistent"), ("GIT_DIR", "/nonexistent"),
    )
] + [
    green("no key of a provider is set", unset=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), ways=(TEST, PYTEST)),
    green("no address of a provider is set", unset=("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"), ways=(TEST, PYTEST)),
    green("the address of a provider has another port", variables={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, ways=(TEST, PYTEST, XDIST)),
    green("the address of a provider is that of another machine", variables={"OPENAI_BASE_URL": "http://10.1.2.3:8000/v1"},
          ways=(TEST, PYTEST)),
    green("the address of another provider is set too", variables={"AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9"}, ways=(TEST, PYTEST)),
]  # fmt: skip


def _move(name: str) -> object:
    """The project in a folder of another name."""

    def move(checkout: Checkout) -> None:
        place = checkout.folder.parent / name
        place.parent.mkdir(parents=True, exist_ok=True)
        checkout.folder.rename(place)
        checkout.folder = place

    return move


def _link(checkout: Checkout) -> None:
    place = checkout.folder.parent / "linked"
    place.symlink_to(checkout.folder)
    checkout.folder = place


def _compile(checkout: Checkout) -> None:
    """Old bytecode, from another folder."""
    checkout.variables.pop("PYTHONDONTWRITEBYTECODE", None)
    shutil.copytree(checkout.folder, checkout.folder.parent / "old")


def _protect(checkout: Checkout) -> None:
    for path in checkout.folder.rglob("*"):
        if ".git" not in path.parts:
            os.chmod(path, 0o555 if path.is_dir() else 0o444)


FOLDERS = [
    *(
        green(f"the folder is {name[:20]}", _move(name), ways=(TEST, PYTEST))
        for name in ("somewhere/else/deep/down", "with a space", "größe", "x" * 60, "[brackets]", "a'quote", "-dash")
    ),
    green("the folder is a link", _link, ways=(TEST, PYTEST)),
    green("the files cannot be written", _protect, ways=(TEST, PYTEST)),
    green("the files have Windows line ends", Replace("chat_tests.py", "\n", "\r\n", everywhere=True), ways=(TEST,)),
    green("a folder lies around", Write("var/x.txt", "x"), ways=(TEST,)),
    green("there is no .gitattributes", Remove(".gitattributes"), ways=(TEST,)),
    green("there is no .gitignore", Remove(".gitignore"), ways=(TEST,)),
]  # fmt: skip

DAY = "\n\nimport time\n\n_time = time.time\ntime.time = lambda: _time() + {}\n"
TIMES = [
    green(f"the clock is {days} days away", Append("conftest.py", DAY.format(86400 * days)), ways=(TEST, PYTEST))
    for days in (1, -30, 400, 4000)
] + [
    green(f"Python runs with {flags}", python=flags, ways=(TEST, PYTEST) if flags == "-O" else (TEST,))
    for flags in ("-O", "-B", "-u", "-X utf8", "-X dev", "-W ignore", "-OO", "-v", "-bb")
]  # fmt: skip

CASES = {"another environment": VARIABLES, "another folder": FOLDERS, "another time or interpreter": TIMES}
