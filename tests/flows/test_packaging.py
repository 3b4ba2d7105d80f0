"""What is uploaded: the metadata that an index shows, the installed command, and the source archive."""

from __future__ import annotations

import email
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.corpus import PROJECT
from support.environments import installed_python
from support.newcomer import build_distribution
from traceforge import __version__

PROJECT_TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY: str = PROJECT_TABLE["urls"]["Repository"]
LINK = re.compile(r"""\]\(([^)\s]+)|(?:src|href|srcset)="([^"]+)\"""")


def absolute_links(text: str) -> str:
    """Links as the hook of the build makes them."""
    spec = importlib.util.spec_from_file_location("hatch_build", PROJECT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    links: str = module.absolute_links(text, REPOSITORY)
    return links


def list_links(text: str) -> list[str]:
    return [markdown or html for markdown, html in LINK.findall(text)]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    build_distribution(PROJECT, folder)
    return folder


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.parametrize(
    ("text", "absolute"),
    [
        ("[a](docs/index.md)", f"[a]({REPOSITORY}/blob/main/docs/index.md)"),
        ("[a](docs/index.md#learn)", f"[a]({REPOSITORY}/blob/main/docs/index.md#learn)"),
        ("![a](docs/a.svg)", f"![a]({REPOSITORY}/raw/main/docs/a.svg)"),
        ("[![a](b.png)](LICENSE)", f"[![a]({REPOSITORY}/raw/main/b.png)]({REPOSITORY}/blob/main/LICENSE)"),
        ("[two\nlines](a.md)", f"[two\nlines]({REPOSITORY}/blob/main/a.md)"),
        ('<img src="a.png" width="9">', f'<img src="{REPOSITORY}/raw/main/a.png" width="9">'),
        ("[a](#install) [b](https://example.com/) [c](mailto:a@b.c)",) * 2,
    ],
)
def test_relative_links_become_absolute(text: str, absolute: str) -> None:
    assert absolute == absolute_links(text)


def test_every_link_of_the_readme_becomes_absolute() -> None:
    """A page of an index has no files beside it."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    links = list_links(absolute_links(text))

    assert len(list_links(text)) == len(links) > 5
    assert [] == [link for link in links if not link.startswith(("https://", "mailto:", "#"))]


def test_no_release_names_an_address_that_does_not_exist() -> None:
    """Every address is that of the repository; as long as it is a placeholder, an index refuses the upload."""
    is_placeholder = (urlsplit(REPOSITORY).hostname or "").endswith(".invalid")

    assert is_placeholder is ("Private :: Do Not Upload" in PROJECT_TABLE["classifiers"])
    assert all(address.startswith(REPOSITORY) for address in PROJECT_TABLE["urls"].values())


@pytest.mark.slow
def test_the_metadata_is_what_an_index_accepts(dist: Path) -> None:
    """It has the addresses of the project, its page has absolute links, and `twine check` finds nothing."""
    with zipfile.ZipFile(wheel_in(dist)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    page = metadata.get_payload()
    assert isinstance(page, str)

    checked = subprocess.run(
        [installed_python("packaging"), "-m", "twine", "check", "--strict", *map(str, dist.iterdir())],
        text=True, capture_output=True, check=False,
    )  # fmt: skip

    assert (0, 2) == (checked.returncode, checked.stdout.count("PASSED")), checked.stdout
    assert "traceforge-gate" == metadata["Name"]
    assert {"Repository", "Documentation", "Changelog", "Issues"} == {
        value.partition(",")[0] for value in metadata.get_all("Project-URL", [])
    }
    assert all(REPOSITORY in value for value in metadata.get_all("Project-URL", []))
    assert [] == [link for link in list_links(page) if not link.startswith(("https://", "mailto:", "#"))]


@pytest.mark.slow
def test_the_wheel_has_the_templates_and_scripts_of_the_web_view(dist: Path) -> None:
    room = PROJECT / "src" / "traceforge" / "ui"
    files = [path for folder in ("templates", "static") for path in (room / folder).rglob("*") if path.is_file()]
    with zipfile.ZipFile(wheel_in(dist)) as archive:
        names = set(archive.namelist())

    assert files
    assert [] == [path for path in files if str(path.relative_to(PROJECT / "src")) not in names]


@pytest.mark.slow
def test_the_installed_command_runs_outside_the_checkout_by_both_names(dist: Path, tmp_path: Path) -> None:
    """And names the extra that a command needs, with the command that installs it."""
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", with_pip=False)
    pins = PROJECT / "requirements" / "dev.txt"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-qq", "-c", _constraints(pins, tmp_path),
         str(wheel_in(dist))],
        check=True,
    )  # fmt: skip

    for command in ("traceforge", "traceforge-gate"):
        ran = _run(python.with_name(command), "--version", cwd=tmp_path)
        assert (0, f"traceforge {__version__}\n") == (ran.returncode, ran.stdout), ran.stderr
    created = _run(python.with_name("traceforge"), "init", "--github-workflow", cwd=tmp_path)
    (tmp_path / "letter.yaml").write_text("interactions: []\nversion: 1\n")
    refused = {
        extra: _run(python.with_name("traceforge"), *words, cwd=tmp_path)
        for extra, words in {
            "context": ("context", "session", "list"), "serve": ("serve",), "ui": ("ui",),
            "vcr": ("import", "vcr", str(tmp_path)),
        }.items()
    }  # fmt: skip

    assert 0 == created.returncode, created.stderr
    assert "pip install traceforge-gate\n" in (tmp_path / ".github/workflows/traceforge.yml").read_text()
    for extra, ran in refused.items():
        hint = f'hint: pip install "traceforge-gate[{extra}]"\n'
        assert (3, True, True) == (ran.returncode, "error TF402: " in ran.stderr, hint in ran.stderr), ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [("uvx", "--from"), ("pipx", "run", "--spec")])
def test_the_wheel_runs_without_an_environment(dist: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """By the name of the package, as `uvx traceforge-gate` and `pipx run traceforge-gate` do."""
    runner = installed_python("packaging").with_name(words[0])
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "UV_CACHE_DIR": str(tmp_path / "uv"), "HOME": str(tmp_path)}

    ran = subprocess.run(
        [runner, *words[1:], str(wheel_in(dist)), "traceforge-gate", "--version"], cwd=tmp_path,
        env={**os.environ, **places}, text=True, capture_output=True, check=False, timeout=600,
    )  # fmt: skip

    assert (0, f"traceforge {__version__}\n") == (ran.returncode, ran.stdout), ran.stderr


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel_and_runs_its_tests(dist: Path, tmp_path: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    built = tmp_path / "built"

    build_distribution(source, built, "--wheel")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_ids.py",
         "tests/unit/test_distribution.py", "tests/docs/test_reference.py"],
        cwd=source, env={**os.environ, "PYTHONPATH": str(source / "src")},
        text=True, capture_output=True, check=False,
    )  # fmt: skip

    with zipfile.ZipFile(wheel_in(dist)) as ours, zipfile.ZipFile(wheel_in(built)) as theirs:
        assert {(entry.filename, entry.CRC) for entry in ours.infolist()} == {
            (entry.filename, entry.CRC) for entry in theirs.infolist()
        }
    assert 0 == tested.returncode, tested.stdout


def _constraints(lock: Path, folder: Path) -> str:
    """The pins of a lock file without their hashes, which pip would then ask of the wheel too."""
    path = folder / "constraints.txt"
    pins = re.findall(r"^([\w.-]+==\S+(?: ; [^\\\n]*)?)", lock.read_text(), re.MULTILINE)
    path.write_text("\n".join(pins))
    return str(path)


def _run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(words, cwd=cwd, env=environ, text=True, capture_output=True, check=False)
