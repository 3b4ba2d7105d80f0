"""Build the documentation site: `make docs-site` writes it to build/site/VERSION, next to the versions already there.

In: docs/, a few pages of the repository's root, and mkdocs.yml. Out: static files that ask no other host for
anything. A broken link, a broken anchor, a page that no menu has, or a resource of another host fails the build.
An option or a name with hyphens stays on one line, because half of it cannot be read; a name with dots ends a line
at one of them.

Errors and rules stand on one page each, where a person can read all of them. On the site, every code and every rule
has a page of its own too, so that it has an address to send and search leads to it alone.

The pages are written for a Git host. A copy of them is changed for the site: the name of a file after a fence
(` ```python file=app.py `) becomes its title, links to the pages in PAGES_OUTSIDE_DOCS follow them, and a Mermaid
diagram, which a Git host draws and a site only with a script of another host, becomes a list.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES_OUTSIDE_DOCS = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "changelog.d/README.md": "project/changelog-fragments.md",
    "examples/README.md": "project/examples.md",
}
CODE_LEVELS = {"errors": "##", "rules": "###"}  # pages of docs/reference, and the headings that are codes there
REDIRECT = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}/"><a href="{0}/">{0}</a>\n'
)
_FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,})(?P<language>\w+)(?P<words>(?: \w+=\S+)+)$", re.MULTILINE)
_CODE = re.compile(r"^(`{3,}).*?^\1$|(`+)[^`].*?\2", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)((?:#[^)\s]*)?)(?=\))")
_CSS_RESOURCE = re.compile(r"(?:url\(|@import\s+)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
_INLINE_CODE = re.compile(r"<code>([^<\n]+)</code>")  # A block of code has a line end, and tags for its colours.
_WORD_WITH_HYPHEN = re.compile(r"(?<!\S)(?=\S{1,30}(?!\S))\S*-\S*")  # A longer one may not fit on a telephone.
_DOTTED_NAME = re.compile(r'(?<=<span class="md-typeset">)\s*[\w.]+\.\w+\s*(?=</span>)')  # in the list of headings
_ANCHOR = re.compile(r"(?<=\]\()#")
_OTHER_HOST = re.compile(r"(?:https?:)?//")


class SiteError(Exception):
    """The site cannot be built; the message says why."""


def stage_pages(staging: Path) -> None:
    """Copy the pages to `staging`, changed for the site."""
    shutil.rmtree(staging, ignore_errors=True)
    shutil.copytree(ROOT / "docs", staging)
    places = {path: staging / path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.*")}
    places |= {ROOT / name: staging / place for name, place in PAGES_OUTSIDE_DOCS.items()}
    for source, target in places.items():
        if source.suffix == ".md":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_site_text(source, target, places), encoding="utf-8")


def _site_text(source: Path, target: Path, places: dict[Path, Path]) -> str:
    def follow(match: re.Match[str]) -> str:
        linked = places.get((source.parent / match[1]).resolve())
        return match[0] if linked is None else os.path.relpath(linked, target.parent) + match[2]

    text = source.read_text(encoding="utf-8")
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(follow, text[end : code.start()]), list_diagram(_FENCE.sub(_title, code[0]))]
        end = code.end()
    return "".join([*parts, _LINK.sub(follow, text[end:])])


def _title(fence: re.Match[str]) -> str:
    """The opening line of a block, with the file it belongs to as title; other words are for the tests."""
    name = re.search(r" file=(\S+)", fence["words"])
    return f"{fence['indent']}{fence['mark']}{fence['language']}" + (f' title="{name[1]}"' if name else "")


def list_diagram(block: str) -> str:
    """A Mermaid diagram as a list: its messages in order, or its groups with what is in them. Other blocks stay."""
    if not block.startswith("```mermaid"):
        return block
    names = dict(re.findall(r"^ *participant (\w+) as (.+)$", block, re.MULTILINE))
    lines: list[str] = []
    for line in block.splitlines():
        if message := re.match(r" *(\w+)-?->>(\w+): (.+)", line):
            lines.append(f"1. **{names[message[1]]}** → **{names[message[2]]}**: {message[3]}")
        elif condition := re.match(r" *alt (.+)", line):
            lines.append(f"1. If {condition[1]}:")
        elif group := re.match(r" *subgraph \w+ \[(.+)\]", line):
            lines.append(f"- **{group[1]}**")
        elif room := re.match(r' *\w+\["(.+)"\]', line):
            lines.append(f"    - {room[1].replace(',<br/>', ', ').replace('<br/>', ': ')}")
        elif line.strip() == "else":
            lines.append("1. Otherwise:")
    return "\n".join(lines)


def write_code_pages(folder: Path) -> None:
    """Give every error code and every rule a page below its list, and link the headings of the list there.

    The list keeps its text and its anchors: other pages link to them.
    """
    for name, level in CODE_LEVELS.items():
        overview = folder / f"{name}.md"
        text = overview.read_text(encoding="utf-8")
        heading = re.compile(rf"^{level} ([A-Z]+\d*)$", re.MULTILINE)
        _, *parts = heading.split(text)
        (folder / name).mkdir()
        for code, body in zip(parts[::2], parts[1::2], strict=True):
            page = folder / name / f"{code.lower()}.md"
            page.write_text(_code_page(name, code, body), encoding="utf-8")
        for code in parts[::2]:
            link = f"{level} [{code}]({name}/{code.lower()}.md) {{ data-search-exclude }}\n"
            text = text.replace(f"{level} {code}\n", link)
        overview.write_text(text, encoding="utf-8")


def _code_page(name: str, code: str, body: str) -> str:
    """The page of one code: what its list says about it, with links that start one folder deeper."""
    text = body.partition("\n## ")[0].strip()  # up to the next group of rules
    text = _ANCHOR.sub(f"../{name}.md#", _LINK.sub(r"../\1\2", text))
    return f"# {code}\n\n{text}\n\n`traceforge help {code}` prints this in a terminal. [All {name}](../{name}.md)\n"


def pages_without_menu(staging: Path) -> list[str]:
    """The pages that the menu of mkdocs.yml does not have."""
    menu = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    return sorted({path.relative_to(staging).as_posix() for path in staging.rglob("*.md")} - menu)


def keep_words_whole(page: str) -> str:
    """A page of HTML in which no line ends at a hyphen of inline code, or in the middle of a dotted name."""

    def mark(code: re.Match[str]) -> str:
        words = _WORD_WITH_HYPHEN.sub(r'<span class="whole">\g<0></span>', code[1])
        return f"<code>{words}</code>"

    return _DOTTED_NAME.sub(lambda name: name[0].replace(".", ".<wbr>"), _INLINE_CODE.sub(mark, page))


class _Resources(HTMLParser):
    """What a browser loads to show a page: scripts, styles, images, icons, frames; links to follow are not loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("src", "srcset", "poster", "data") if tag != "link" else ("href",)
        self.urls += [value for name, value in attrs if name in names and value]
        self.urls += [
            url for name, value in attrs if name == "style" and value for url in _CSS_RESOURCE.findall(value)
        ]


def resources_of_other_hosts(site: Path) -> Iterator[tuple[str, str]]:
    """Each resource that a page or style of the site would load from another host, with the file that names it."""
    for path in sorted(site.rglob("*.*")):
        urls: list[str] = []
        if path.suffix == ".html":
            parser = _Resources()
            parser.feed(path.read_text(encoding="utf-8"))
            urls = parser.urls
        elif path.suffix == ".css":
            urls = _CSS_RESOURCE.findall(path.read_text(encoding="utf-8"))
        yield from ((path.relative_to(site).as_posix(), url) for url in urls if _OTHER_HOST.match(url))


def list_versions(folder: Path, newest: str) -> None:
    """Write what the version menu reads, and send visitors of the folder to the newest version."""
    names = [path.name for path in folder.iterdir() if (path / "index.html").is_file()]
    names.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)
    versions = [{"version": name, "title": name, "aliases": ["latest"] * (name == newest)} for name in names]
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(REDIRECT.format(newest), encoding="utf-8")


def build(folder: Path, version: str) -> Path:
    """Build one version of the site into `folder`.

    Raises:
        SiteError: with everything that is wrong.
    """
    work = folder / ".work"
    staging, site = work / "pages", work / "site"
    stage_pages(staging)
    if missing := pages_without_menu(staging):
        raise SiteError(f"mkdocs.yml has no menu entry for: {', '.join(missing)}")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    write_code_pages(staging / "reference")
    config = work / "mkdocs.yml"
    config.write_text(f"{settings}\ndocs_dir: pages\nsite_dir: site\n", encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(config)]
    environment = {**os.environ, "NO_COLOR": "1"}
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    if process.returncode:
        raise SiteError(process.stdout + process.stderr)
    if foreign := list(resources_of_other_hosts(site)):
        raise SiteError("\n".join(f"{name} loads {url}" for name, url in foreign))
    for page in site.rglob("*.html"):
        page.write_text(keep_words_whole(page.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.rmtree(folder / version, ignore_errors=True)
    site.rename(folder / version)
    shutil.rmtree(work)
    list_versions(folder, version)
    return folder / version


def main() -> None:
    """Build the version of this checkout into build/site, or into the folder that is named."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    text = (ROOT / "src" / "traceforge" / "__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
    try:
        site = build(folder, version)
    except SiteError as error:
        sys.exit(str(error))
    print(f"wrote {site}")  # noqa: T201


if __name__ == "__main__":
    main()
