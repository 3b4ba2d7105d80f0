"""Documentation pages: their headings, links and fenced blocks, and how the blocks are run.

In: a Markdown file. Out: its parts, and the text that its commands really print. A page is run from top to bottom
in one shell that starts in an empty folder, as a reader would; `samples/<path of the page>/`, where it exists, is
copied there first.

    ```console          each line after "$ " (and "> " for more of it) is given to bash and must exit with 0;
                        the lines below it must be its output, stdout and stderr together
    ```python           runs in one namespace for the whole page; a function test_… in it is called
    ```json file=NAME   is written to NAME, and not run here; any language may carry `file`
    ```json as=KIND     must be a whole document that the reader of KIND accepts

Blocks in any other language of LANGUAGES are shown and never run. Of an output, some things are not compared: how
long pytest took, when something was approved, spaces at the end of a line, the lines for which a line with nothing
but `…` stands, and, where nothing can be sealed, how strongly a test was kept offline. The port 8080 of a page is
another one that is free.

A page that is named `gate-*` has the packages of `requirements/apps.txt` (or those of `OTHER_PACKAGES`) and of
`tests/apps/node`. These pages, those of the cookbook and the quickstart have the model server of `examples/` at the
port of which they speak. The tutorial starts in the checkout.

`python tests/docs/pages.py` writes the real output into every page; read the diff before you keep it.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.command import PLAIN_PYTEST  # noqa: E402  # found through the line above
from support.environments import installed_python, node_modules  # noqa: E402
from support.model_servers import model_server_process  # noqa: E402
from traceforge.capture.run.seal import reason_not_sealable  # noqa: E402

SAMPLES = Path(__file__).resolve().parent / "samples"
LANGUAGES = frozenset(
    {"console", "python", "json", "jsonl", "toml", "text", "bash", "yaml", "markdown", "mermaid", "javascript"}
)
SECONDS_MAX = 120  # A command of a page ends soon, also on a busy machine; beyond this, it hangs.
FROM_THE_CHECKOUT = "docs/tutorials/first-gate.md"
PORT = "8080"
# Pages with the packages of another file: litellm pins an older openai, and botocore takes long to install.
OTHER_PACKAGES = {
    "gate-litellm": "litellm",
    "gate-dspy": "litellm",
    "gate-instructor": "litellm",
    "gate-bedrock": "aws",
}
MORE = "…"
GIT_USER = {"NAME": "Ada", "EMAIL": "ada@example.com"}

# Variables that would change the output on another machine.
_SETTING = re.compile(
    r"(TRACEFORGE|GITHUB|GIT|PYTEST|NODE|OPENAI|ANTHROPIC|GEMINI|GOOGLE|OLLAMA|AWS|LANG\w+)_.*|MAKE.*|MFLAGS|CI|COLUMNS"
)
_END = "that was it: "  # Printed by the shell after each command, with the exit code.
_VOLATILE = re.compile(
    r"(?<= in )\d+\.\d\ds\b(?: \(\d:\d\d:\d\d\))?|\d{4}-\d\d-\d\dT[\d-]+Z-[0-9a-f]{12}(?=\.json)| +$", re.MULTILINE
)
_STRENGTH = re.compile(r"^traceforge: offline: .*\n(    .*\n)*", re.MULTILINE)
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
    """One command of a console block, and the output that the page shows."""

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
        matches = [match for line in self.prose if (match := _HEADING.match(line))]
        return [match[2].replace("`", "") for match in matches if level in (None, len(match[1]))]

    def anchors(self) -> set[str]:
        """The anchors that `#…` can point at, spelled as Git hosts spell them."""
        counts: dict[str, int] = {}
        anchors = set()
        for heading in self.headings():
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = counts.get(slug, 0)
            counts[slug] = count + 1
            anchors.add(f"{slug}-{count}" if count else slug)
        return anchors

    def links(self) -> list[str]:
        """Every link target outside code."""
        text = _CODE_SPAN.sub("", "\n".join(line for line in self.prose))
        return [match[1] for match in _LINK.finditer(text)]


def all_pages() -> list[Page]:
    """Every page of the documentation."""
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
    scripts: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            scripts.append(([line[2:]], []))
        elif scripts and line.startswith("> ") and not scripts[-1][1]:
            scripts[-1][0].append(line[2:])
        else:
            assert scripts, f"line {block.line}: a console block starts with a command: $ …"
            scripts[-1][1].append(line)
    return [Command("\n".join(script), "".join(f"{line}\n" for line in output)) for script, output in scripts]


def copy_samples(page: Page, folder: Path) -> None:
    """Copy the files that the reader of a page is assumed to have."""
    samples = SAMPLES / page.name.removesuffix(".md")
    if samples.is_dir():
        copytree(samples, folder, dirs_exist_ok=True)


def write_file(block: Block, folder: Path) -> None:
    """Write a block that names its file."""
    if name := block.attributes.get("file"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")


class Terminal:
    """A shell for one page, so that variables, folders and processes last from one command to the next."""

    def __init__(self, page: Page, folder: Path, path: list[Path], port: str) -> None:
        self.port = port
        inherited = {name: value for name, value in os.environ.items() if not _SETTING.fullmatch(name)}
        settings = {"HOME": str(folder), "LC_ALL": "C.UTF-8", **PLAIN_PYTEST}
        settings |= {
            f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in GIT_USER.items()
        }
        if needs_packages(page) and any("import traceforge" in block.text for block in page.blocks):
            settings["PYTHONPATH"] = str(ROOT / "src")  # Its reader has installed TraceForge beside the packages.
        settings["PATH"] = os.pathsep.join([*map(str, path), os.environ["PATH"]])
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=ROOT if page.name == FROM_THE_CHECKOUT else folder,
            env={**inherited, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, command: Command) -> tuple[int, str]:
        """Run a command; its exit code, and all its output."""
        assert self._shell.stdin
        script = re.sub(rf"\b{PORT}\b", self.port, command.script)
        self._shell.stdin.write(f"eval {shlex.quote(script)} </dev/null; echo {shlex.quote(_END)}$?\n".encode())
        self._shell.stdin.flush()
        output, _, code = self._read(time.monotonic() + SECONDS_MAX, command).rpartition(_END)
        return int(code), re.sub(rf"(?<=:){self.port}\b", PORT, output)

    def _read(self, until: float, command: Command) -> str:
        assert self._shell.stdout
        output = b""
        while not re.search(rf"{_END}\d+\n\Z".encode(), output):
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0, until - time.monotonic()))
            piece = os.read(self._shell.stdout.fileno(), 1 << 16) if ready else b""
            assert piece, f"no end, after {output.decode()!r}: $ {command.script}"
            output += piece
        return output.decode()

    def close(self) -> None:
        """End the shell and the processes it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


def needs_packages(page: Page) -> bool:
    """Whether the page is about applications with packages of their own, and a model."""
    return page.path.name.startswith("gate-")


def needs_model(page: Page) -> bool:
    """Whether the page expects a model server."""
    return needs_packages(page) or page.path.parent.name == "cookbook" or page.path.name == "quickstart.md"


@contextmanager
def open_terminal(page: Page, folder: Path) -> Iterator[Terminal]:
    """A terminal in `folder`, with everything that the page's reader is assumed to have."""
    copy_samples(page, folder)
    path = [Path(sys.executable).parent]
    if needs_packages(page):
        path.insert(0, installed_python(OTHER_PACKAGES.get(page.path.stem, "apps")).parent)
    if any(block.language == "javascript" for block in page.blocks):
        (folder / "node_modules").symlink_to(node_modules("node") / "node_modules")
    with _port_of_a_model(page) as port:
        terminal = Terminal(page, folder, path, port)
        try:
            yield terminal
        finally:
            terminal.close()


@contextmanager
def _port_of_a_model(page: Page) -> Iterator[str]:
    """The port of a model server if the page needs one, else one that is free."""
    if needs_model(page):
        with model_server_process() as server:
            yield server.url.rpartition(":")[2]
    else:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        yield port


def is_shown_output(expected: str, output: str) -> bool:
    """Whether `output` is what the page shows; see the top of this file for what is not compared."""
    lines = [
        r"(.*\n)*?" if line.strip() == MORE else re.escape(line)
        for line in _compared(expected).splitlines(keepends=True)
    ]
    return re.fullmatch("".join(lines), _compared(output)) is not None


def _compared(text: str) -> str:
    text = _VOLATILE.sub("", text)
    return _STRENGTH.sub("", text) if reason_not_sealable() else text


def run_python(block: Block, page: Page, namespace: dict[str, object]) -> None:
    """Run a Python block, and the tests it defines; a traceback names the line of the page."""
    before = set(namespace)
    code = compile("\n" * block.line + block.text, str(page.path), "exec")
    exec(code, namespace)
    for name in namespace.keys() - before:
        if name.startswith("test_") and callable(test := namespace[name]):
            test()


def rewrite(page: Page) -> str:
    """The page's text, with the real output of its commands."""
    lines = page.path.read_text(encoding="utf-8").split("\n")
    replaced: list[tuple[Block, list[str]]] = []
    before = Path.cwd()
    with TemporaryDirectory() as name, open_terminal(page, Path(name)) as terminal:
        os.chdir(name)
        namespace: dict[str, object] = {}
        for block in page.blocks:
            write_file(block, Path(name))
            if block.language == "console":
                replaced.append((block, list(_real_output(block, terminal))))
            elif is_run_here(block):
                run_python(block, page, namespace)
        os.chdir(before)
    for block, output in reversed(replaced):
        lines[block.line : block.line + block.text.count("\n")] = output
    return "\n".join(lines)


def is_run_here(block: Block) -> bool:
    """Whether the block is Python for our own process; one that is written to a file is run by a command."""
    return block.language == "python" and "file" not in block.attributes


def _real_output(block: Block, terminal: Terminal) -> Iterator[str]:
    for command in commands(block):
        first, *more = command.script.split("\n")
        yield f"$ {first}"
        yield from (f"> {line}" for line in more)
        code, output = terminal.run(command)
        if code:
            print(f"line {block.line}: exit {code}: {first}", file=sys.stderr)  # noqa: T201
        text = command.output if is_shown_output(command.output, output) else output
        yield from (line.rstrip() for line in text.splitlines())


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
