"""What `traceforge init` writes.

In: a folder of the project. Out: at the root of the project `traceforge.config.json` with every setting explained,
`.gitignore` lines for what must never be committed, `.gitattributes` lines that keep Git from changing snapshots,
and `.ai-tests/match.key` unless the project has a key already; on request a workflow of GitHub Actions. Never:
changes an existing line.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence

from traceforge.config import (
    CONFIG_FILE,
    MATCH_KEY_FILE,
    MATCH_KEY_VARIABLE,
    SNAPSHOTS_DIR,
    LoadedConfig,
    find_project,
    find_repository,
    load_config,
)
from traceforge.distribution import DISTRIBUTION, install_command
from traceforge.errors import CannotWrite
from traceforge.files import STATE_DIR, make_shared_folder, read_file, write_atomic
from traceforge.match_key import ensure_match_key, find_match_key, read_key_id

GITIGNORE = ".gitignore"
GITATTRIBUTES = ".gitattributes"

# Digests cover bytes, so Git must not convert line ends; and reviewers need not see raw responses, so GitHub folds
# them. The manifest has no merge driver on purpose: two branches that change it conflict, so that it is rebuilt.
ATTRIBUTES = (f"{SNAPSHOTS_DIR}/** -text", f"{SNAPSHOTS_DIR}/wire/** linguist-generated")

CONFIG = """{
  // What this project declares about TraceForge: JSON with comments. Each value below is the default, so a line can
  // be changed or taken out. `traceforge config check` finds mistakes, `traceforge config show` says what counts.

  // Where calls are kept. Never commit this folder.
  "traces_dir": ".ai-tests/traces",

  // How many days a trace is kept; 0 keeps traces for ever.
  "max_trace_retention": 30,

  // "group" waits for the disk a few times a second, "sync" for every call.
  "durability": "group",

  // More names of headers and fields whose value is always redacted, such as "custom_secret_field".
  "redact_fields": [],

  // More expressions (google-re2) whose matches are redacted, such as "EMP-[0-9]{6}".
  "redact_patterns": [],

  // Values that look like secrets and may stay, such as "*@example.org".
  "allow": [],

  // "auto": a call with temperature 0 and a seed is gated on prompt and answer, any other on its prompt;
  // "strict": any other is refused.
  "determinism": "auto",

  // What is declared about models, such as "gpt-4.1-*": { "gate": "behaviour" } to gate their answers too.
  "models": {},

  // Names and addresses of your own upstreams, such as "corp": "https://llm.example.com/gateway"; only an option or
  // a variable redirects a provider.
  "upstreams": {},

  // Hosts whose every call is recorded, beside those of providers, such as "llm.corp.example".
  "hosts": [],

  // "models": record the calls of models, and of these hosts; "all": record all HTTP except to this machine.
  "record_http": "models",

  // Files and folders that are never the place a call came from, such as "src/app/llm".
  "callsite": { "skip": [] },

  // Parts of a request that may differ when it is replayed: paths such as "$.metadata.request_id", expressions, and
  // names of headers; and headers that are compared too, such as "openai-organization".
  "match": {
    "ignore_paths": [], "ignore_patterns": [], "redacted": "require", "headers": [], "ignore_headers": []
  },

  // How `traceforge test` keeps a command from the network, and which ports of loopback it may reach all the same;
  // and the tests with approved calls that a run may skip, such as "tests/test_gpu.py::*", that may call more often
  // than approved, or any number of times, or whose calls vcrpy may answer; and parts of requests that may differ in
  // some tests only, such as "match": { "tests/test_plan.py::*": { "ignore_patterns": ["Today is [0-9-]+"] } }
  "test": {
    "seal_network": "auto", "allow_ports": [], "allow_programs": [], "ignore_hosts": [], "may_skip": [],
    "may_repeat": [], "may_vary": [], "cassette_tests": [], "match": {}
  },

  // Whether every approval must be signed by somebody whom .ai-snapshots/allowed_signers names.
  "approvals": { "require_signed": false }
}
"""

WORKFLOW_FILE = ".github/workflows/traceforge.yml"
WORKFLOW = """\
# Behaviour is as approved: written by `traceforge init --github-workflow`, and yours to change.
name: TraceForge
on:
  pull_request:
  merge_group: # a merge queue compares what it would merge
  push:
    branches: [main]
permissions:
  contents: read
jobs:
  behaviour:
    runs-on: ubuntu-latest
@FOLDER@    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 2 # HEAD^1 of a pull request is the branch that it goes to
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Every changed snapshot is approved # checked before anything of the pull request runs
        run: |
          @INSTALL_TRACEFORGE@
          @COMMAND@ base --fetch # `traceforge`, by the name that no other package has
          @COMMAND@ verify
      - name: Install
        run: |
          @INSTALL@
      - name: Behaviour is as approved
        env:
          TRACEFORGE_MATCH_KEY: ${{ secrets.TRACEFORGE_MATCH_KEY }} # the content of .ai-tests/match.key
        run: @COMMAND@ test -- python -m pytest
"""

# Ways to write that a folder is ignored: anchored or not, with what is in it or without.
_ROOTED = re.compile(r"^(\*\*)?/")
_INSIDE = re.compile(r"/(\*\*?)?$")
_SPECIAL, _ESCAPED = re.compile(r"([*?\[\\ ])"), r"\\\1"


def prepare(folder: str) -> Iterator[str]:
    """Do what is missing in the project around `folder`, and say each step in one line.

    Raises:
        InvalidConfig, CannotRead: an existing file cannot be read; it is not changed.
        CannotWrite: the project is not ours to write.
    """
    loaded = load_config(folder)
    yield _write_config(loaded, folder)
    yield add_lines(loaded.project, folder, GITIGNORE, _to_ignore(loaded), _ignores)
    yield add_lines(loaded.project, folder, GITATTRIBUTES, ATTRIBUTES, has_line)
    yield _write_key(loaded.project, folder)


def prepare_workflow(folder: str) -> str:
    """Write a workflow for the project around `folder`, where its repository has none; say that in one line.

    Raises:
        CannotWrite: the folder of workflows is not ours to write.
    """
    project = find_project(folder)
    root = find_repository(project)
    path = os.path.join(root, WORKFLOW_FILE)
    shown_path = _shown_path(root, WORKFLOW_FILE, folder)
    if os.path.lexists(path):
        return f"kept      {shown_path}"
    if not _is_in(os.path.realpath(path), root):
        raise CannotWrite(path, "a symbolic link leads out of the repository", hint="Replace the link with a folder.")
    try:
        make_shared_folder(os.path.dirname(path))
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    write_atomic(path, _workflow(project, root).encode())
    return f"wrote     {shown_path}: see that it installs and tests your application"


def _workflow(project: str, root: str) -> str:
    """Install what the project says, in the folder where it is."""
    below = os.path.relpath(project, root).replace(os.sep, "/")
    inside = f"    defaults:\n      run:\n        working-directory: '{below.replace(chr(39), chr(39) * 2)}'\n"
    install = "# install your application here"
    if os.path.exists(os.path.join(project, "requirements.txt")):
        install = "python -m pip install -r requirements.txt"
    elif any(os.path.exists(os.path.join(project, name)) for name in ("pyproject.toml", "setup.py")):
        install = "python -m pip install -e ."
    workflow = WORKFLOW.replace("@INSTALL_TRACEFORGE@", install_command()).replace("@COMMAND@", DISTRIBUTION)
    return workflow.replace("@FOLDER@", "" if below == "." else inside).replace("@INSTALL@", install)


def _write_config(loaded: LoadedConfig, seen_from: str) -> str:
    if loaded.file:
        file, _, table = loaded.file.partition(" ")
        return f"kept      {_shown_path(loaded.project, file, seen_from)} {table}".rstrip()
    write_atomic(os.path.join(loaded.project, CONFIG_FILE), CONFIG.encode())
    return f"wrote     {_shown_path(loaded.project, CONFIG_FILE, seen_from)}"


def add_lines(
    project: str, seen_from: str, name: str, wanted: Sequence[str], is_present: Callable[[str, str], bool]
) -> str:
    """Add the lines that a file of Git's does not say yet."""
    path = os.path.join(project, name)
    shown_path = _shown_path(project, name, seen_from)
    is_there = os.path.lexists(path)
    text = read_file(path, follow_links=False).decode(errors="surrogateescape") if is_there else ""
    missing = [line for line in wanted if not is_present(text, line)]
    if not missing:
        return f"kept      {shown_path}"
    end = "\r\n" if "\r\n" in text else "\n"
    lines = "".join(f"{line}{end}" for line in missing)
    start = text if not text or text.endswith("\n") else f"{text}{end}"
    mode = stat.S_IMODE(os.stat(path).st_mode) if is_there else 0o644
    write_atomic(path, f"{start}{lines}".encode(errors="surrogateescape"), mode=mode)
    return f"{'added to ' if is_there else 'wrote    '} {shown_path}: {', '.join(missing)}"


def _to_ignore(loaded: LoadedConfig) -> list[str]:
    """What must never be committed: our own folder, and that of the traces where the project has another one."""
    own = os.path.join(loaded.project, STATE_DIR)
    traces = os.path.normpath(os.path.join(loaded.project, loaded.config.traces_dir))
    below = os.path.relpath(traces, loaded.project).replace(os.sep, "/")
    if _is_in(traces, own) or traces == loaded.project or not _is_in(traces, loaded.project):
        return [f"{STATE_DIR}/"]
    return [f"{STATE_DIR}/", f"/{_SPECIAL.sub(_ESCAPED, below)}/"]


def _is_in(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def _ignores(text: str, wanted: str) -> bool:
    """Whether a `.gitignore` file ignores this name. Of two lines about one name, the last one counts."""
    is_ignored = False
    for line in text.removeprefix("\ufeff").split("\n"):
        name = line.rstrip("\r\t ")
        if _plain(name.removeprefix("!")) == _plain(wanted):
            is_ignored = not name.startswith("!")
    return is_ignored


def has_line(text: str, wanted: str) -> bool:
    """Whether the text has this line, with any white space."""
    return wanted.split() in [line.split() for line in text.removeprefix("\ufeff").split("\n")]


def _plain(name: str) -> str:
    return _INSIDE.sub("", _ROOTED.sub("", name))


def _write_key(project: str, seen_from: str) -> str:
    shown_path = _shown_path(project, MATCH_KEY_FILE, seen_from)
    if ensure_match_key(project):
        return f"wrote     {shown_path} (a secret: never commit it; CI takes it from TRACEFORGE_MATCH_KEY)"
    if find_match_key(project) is not None:
        return f"kept      {MATCH_KEY_VARIABLE if os.environ.get(MATCH_KEY_VARIABLE) else shown_path}"
    return f"missing   {shown_path}: the project's match key has the id {read_key_id(project)}; ask your team for it"


def _shown_path(project: str, name: str, seen_from: str) -> str:
    return os.path.relpath(os.path.join(project, name), os.path.realpath(seen_from))
