"""Documentation pages: their headings, links and fenced blocks, and how the blocks are run.

In: a Markdown file. Out: its parts, and the text that its commands really print. A page is run from top to bottom
in one empty folder; `samples/<path of the page>/`, where it exists, is copied there first.

    ```console          each line after "$ " (and "> " for more of it) is given to bash and must exit with 0;
                        the lines below it must be its output, stdout and stderr together
    ```python           runs in one namespace for the whole page; a function test_… in it is called
    ```json file=NAME   is written to NAME first; any language may carry `file`
    ```json as=KIND     must be a whole document that the reader of KIND accepts

Blocks in any other language of LANGUAGES are shown and never run.

`python tests/docs/pages.py` writes the real output into every page; read the diff before you keep it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path(__file__).resolve().parent / "samples"
LANGUAGES = frozenset({"console", "python", "json", "jsonl", "toml", "text", "bash", "yaml", "markdown"})
SECONDS_MAX = 20  # A command that a page shows answers at once; beyond this, it hangs.

_SETTING = re.compile(r"TRACEFORGE_.*|GITHUB_.*|CI|COLUMNS")  # What would change the output on another machine.
_FENCE = re.compile(r"^(?P<mark>`{3,})(?P<info>[^`]*)$")
_HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
_LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"(`+)[^`].*?\1")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its opening fence, from 1."""

    line: int
    language: str
    attributes: dict[str, str]
    text: str


@dataclass(frozen=True)
class Command:
    """One command of a console block, and what the page says it prints."""

    script: str
    output: str


@dataclass(frozen=True)
class Page:
    """One Markdown file. `prose` is its lines outside fences."""

    path: Path
    blocks: list[Block] = field(default_factory=list, repr=False)
    prose: list[str] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    def headings(self, level: int | None = None) -> list[str]:
        """The headings, without backticks; of one level, or of all."""
        found = [match for line in self.prose if (match := _HEADING.match(line))]
        return [match[2].replace("`", "") for match in found if level in (None, len(match[1]))]

    def anchors(self) -> set[str]:
        """What `#…` can point at, spelled as Git hosts spell it."""
        seen: dict[str, int] = {}
        anchors = set()
        for heading in self.headings():
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            anchors.add(f"{slug}-{count}" if count else slug)
        return anchors

    def links(self) -> list[str]:
        """Every link target outside code."""
        text = _CODE_SPAN.sub("", "\n".join(line for line in self.prose))
        return [match[1] for match in _LINK.finditer(text)]


def all_pages() -> list[Page]:
    """Every page we write."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    paths += sorted((ROOT / "changelog.d").glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
    return [read_page(path) for path in paths]


def read_page(path: Path) -> Page:
    """Split a page into its blocks and the lines around them; a fence that never closes is an error."""
    page = Page(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            page.prose.append(lines[number])
            number += 1
            continue
        closing = lines.index(opening["mark"], number + 1)
        page.blocks.append(_block(number + 1, opening["info"], lines[number + 1 : closing]))
        number = closing + 1
    return page


def _block(line: int, info: str, lines: list[str]) -> Block:
    language, *words = info.split() or [""]
    attributes = dict(word.split("=", 1) for word in words)
    return Block(line, language, attributes, "".join(f"{text}\n" for text in lines))


def commands(block: Block) -> list[Command]:
    """The commands of a console block, in order."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found and line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            assert found, f"line {block.line}: a console block starts with a command: $ …"
            found[-1][1].append(line)
    return [Command("\n".join(script), "".join(f"{line}\n" for line in output)) for script, output in found]


def lay_out(page: Page, folder: Path) -> None:
    """Give a page the files its reader is assumed to have."""
    samples = SAMPLES / page.name.removesuffix(".md")
    if samples.is_dir():
        copytree(samples, folder, dirs_exist_ok=True)


def write_file(block: Block, folder: Path) -> None:
    """Write a block that names its file."""
    if name := block.attributes.get("file"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")


def run_command(command: Command, folder: Path) -> tuple[int, str]:
    """Give a command to bash; its exit code, and all it prints."""
    environment = {name: value for name, value in os.environ.items() if not _SETTING.fullmatch(name)}
    environment.update(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", LC_ALL="C.UTF-8")
    done = subprocess.run(
        ["bash", "-c", command.script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout.decode()


def run_python(block: Block, page: Page, namespace: dict[str, object]) -> None:
    """Run a Python block, and the tests it defines; a traceback names the line of the page."""
    before = set(namespace)
    code = compile("\n" * block.line + block.text, str(page.path), "exec")
    exec(code, namespace)
    for name in namespace.keys() - before:
        if name.startswith("test_") and callable(test := namespace[name]):
            test()


def rewrite(page: Page) -> str:
    """The page's text, with the output that its commands print now."""
    lines = page.path.read_text(encoding="utf-8").split("\n")
    replaced: list[tuple[Block, list[str]]] = []
    before = Path.cwd()
    with TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(page, folder)
        os.chdir(folder)
        namespace: dict[str, object] = {}
        for block in page.blocks:
            write_file(block, folder)
            if block.language == "python":
                run_python(block, page, namespace)
            elif block.language == "console":
                replaced.append((block, list(_told(block, folder))))
        os.chdir(before)
    for block, told in reversed(replaced):
        lines[block.line : block.line + block.text.count("\n")] = told
    return "\n".join(lines)


def _told(block: Block, folder: Path) -> Iterator[str]:
    for command in commands(block):
        first, *more = command.script.split("\n")
        yield f"$ {first}"
        yield from (f"> {line}" for line in more)
        code, output = run_command(command, folder)
        if code:
            print(f"line {block.line}: exit {code}: {first}", file=sys.stderr)  # noqa: T201
        yield from output.splitlines()


def main() -> None:
    """Write the real output into every page that has a command, or into those named."""
    named = {Path(name).resolve() for name in sys.argv[1:]}
    for page in all_pages():
        if named and page.path not in named:
            continue
        if any(block.language == "console" for block in page.blocks):
            text = rewrite(page)
            if text != page.path.read_text(encoding="utf-8"):
                page.path.write_text(text, encoding="utf-8")
                print(f"wrote {page.name}")  # noqa: T201


if __name__ == "__main__":
    main()
