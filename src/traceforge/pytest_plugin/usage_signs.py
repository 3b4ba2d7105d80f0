"""Whether a checkout without snapshots shows that its project uses TraceForge.

In: the files of a checkout. Out: the first sign, or none. Never: reads a file that is not a small regular one.

TraceForge may be installed and not used, such as with the tools of a company. There, a build whose base
cannot be read must not fail; in a project that uses TraceForge it must, as its snapshots may have been removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

from traceforge.config import CONFIG_BYTES_MAX, CONFIG_FILE, PYPROJECT_FILE, configures_traceforge, find_repository
from traceforge.errors import CannotRead
from traceforge.files import list_folder, read_file

GIT_FILES = (".gitignore", ".gitattributes")
GIT_WORDS = (b".ai-snapshots", b".ai-tests")
PYTEST_FILES = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", PYPROJECT_FILE)
PYTEST_WORDS = (b"-p traceforge", b"-ptraceforge", b"--traceforge")
WORKFLOW_FOLDER = ".github/workflows"
WORKFLOW_FILES = (
    ".gitlab-ci.yml", ".travis.yml", ".circleci/config.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml",
    "Jenkinsfile",
)  # fmt: skip


def find_usage_sign(starts: Sequence[str]) -> str:
    """The file that shows that TraceForge is used around some folders, up to the repository; "" for none."""
    repository = find_repository(starts[0])
    folders = dict.fromkeys(folder for start in starts for folder in _list_folders_above(start, repository))
    files = (*(item for folder in folders for item in _list_files(folder)), *_list_workflows(repository))
    mentions = (path for path, words in files if _mentions(path, words))
    sign = next(filter(None, chain(map(find_configuration, folders), mentions)), "")
    return os.path.relpath(sign, repository).replace(os.sep, "/") if sign else ""


@cache
def find_configuration(folder: str) -> str:
    """The file of this folder that configures TraceForge; "" for none."""
    own, shared = os.path.join(folder, CONFIG_FILE), os.path.join(folder, PYPROJECT_FILE)
    if _mentions(own, (b"",)):
        return own
    return shared if configures_traceforge(shared) else ""


def _list_folders_above(start: str, repository: str) -> Iterator[str]:
    folder = os.path.realpath(start)
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if folder in (repository, parent):
            return
        folder = parent


def _list_files(folder: str) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Files of a folder, and the words of which each would be a sign."""
    for name in GIT_FILES:
        yield os.path.join(folder, name), GIT_WORDS
    for name in PYTEST_FILES:
        yield os.path.join(folder, name), PYTEST_WORDS


def _list_workflows(repository: str) -> Iterator[tuple[str, Sequence[bytes]]]:
    folder = os.path.join(repository, WORKFLOW_FOLDER)
    try:
        paths = [entry.path for entry in list_folder(folder)]
    except CannotRead:
        paths = []
    for path in (*sorted(paths), *(os.path.join(repository, name) for name in WORKFLOW_FILES)):
        yield path, (b"traceforge",)


def _mentions(path: str, words: Sequence[bytes]) -> bool:
    try:
        data = read_file(path, bytes_max=CONFIG_BYTES_MAX)
    except CannotRead:
        return False
    return any(word in data for word in words)
