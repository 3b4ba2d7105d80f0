"""What a pull request brings, and what it does to the approved tree."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.gate_case import (
    PYTEST,
    SNAPSHOTS,
    TEST,
    XDIST,
    Append,
    Case,
    Checkout,
    Command,
    Git,
    Remove,
    Replace,
    Step,
    Write,
    commit,
    green,
    not_green,
    red,
    unchecked,
)
from traceforge.snapshots.formats.snapshot_format import write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest


def _find(checkout: Checkout, pattern: str) -> Path:
    """The first file of the tree that matches."""
    return sorted((checkout.folder / SNAPSHOTS).glob(pattern))[0]


def _edit(pattern: str, change: Callable[[Any], None]) -> Step:
    """Change the JSON of a file of the tree, and nothing else."""

    def apply(checkout: Checkout) -> None:
        path = _find(checkout, pattern)
        value = json.loads(path.read_bytes())
        change(value)
        path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    return apply


def _set(*places: str | int, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for place in places[:-1]:
            value = value[place]
        assert value[places[-1]] != to
        value[places[-1]] = to

    return change


def forge_record(checkout: Checkout, place: tuple[str, str] = ("response", "content"), to: Any = "Forged.") -> None:
    """Change a record, and correct every hash that its author can compute."""
    path = _find(checkout, "openai/stream-*.json")
    record = json.loads(path.read_bytes())["snapshots"][0]
    record[place[0]][place[1]] = to
    path.write_bytes(write_document([record]))
    rebuild_manifest(str(checkout.folder / SNAPSHOTS))


RECORD, RAW, APPROVAL = "openai/stream-*.json", "wire/stream-*.json", "approvals/*.json"
RECORD_CHAT = Command(("record", "--", sys.executable, "-m", "pytest", "-q", "chat_tests.py"))
APPROVE_ALL = Command(("approve", "--all", "--reason", "It is right"))


def _with_line_ends(checkout: Checkout) -> None:
    path = _find(checkout, RAW)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def _swap_raw(checkout: Checkout) -> None:
    first, second = sorted((checkout.folder / SNAPSHOTS / "wire").glob("*.json"))[:2]
    first_bytes = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(first_bytes)


def _rename_approval(checkout: Checkout) -> None:
    path = _find(checkout, APPROVAL)
    path.rename(path.with_name("2026-01-01T00-00-00-000Z-000000000000.json"))


def _drop_raw(checkout: Checkout) -> None:
    path = _find(checkout, RECORD)
    record = json.loads(path.read_bytes())["snapshots"][0]
    del record["response"]["wire"]
    path.write_bytes(write_document([record]))
    _find(checkout, RAW).unlink()
    rebuild_manifest(str(checkout.folder / SNAPSHOTS))


def _copy_record(checkout: Checkout) -> None:
    path = _find(checkout, RECORD)
    path.with_name("stream-copied.json").write_bytes(path.read_bytes())


def _roll_back(checkout: Checkout) -> None:
    """Approve another prompt, and then bring back the first one with all that belonged to it except the history."""
    kept = {path: path.read_bytes() for path in (checkout.folder / SNAPSHOTS).rglob("*.json")}
    Replace("chat_tests.py", "Tell me a story.", "Tell me a tale.")(checkout)
    Command(("record", "--", sys.executable, "-m", "pytest", "-q", "chat_tests.py"))(checkout)
    Command(("approve", "--all", "--reason", "A tale"))(checkout)
    Replace("chat_tests.py", "Tell me a tale.", "Tell me a story.")(checkout)
    for path, data in kept.items():
        path.write_bytes(data)
    Remove(".ai-tests")(checkout)


def _approve_twice(checkout: Checkout) -> list[Path]:
    """Two more approvals, of other calls than the first one; all of them, oldest first."""
    for word in ("tale", "legend"):
        Append("chat_tests.py", f"\n\ndef test_{word}():\n    assert desk.ask('Tell a {word}.')\n")(checkout)
        RECORD_CHAT(checkout)
        APPROVE_ALL(checkout)
    return sorted((checkout.folder / SNAPSHOTS / "approvals").glob("*.json"))


def _drop_middle(checkout: Checkout) -> None:
    _approve_twice(checkout)[-2].unlink()


def _drop_first(checkout: Checkout) -> None:
    _approve_twice(checkout)[0].unlink()


def _link_tree(checkout: Checkout) -> None:
    tree = checkout.folder / SNAPSHOTS
    tree.rename(checkout.folder.parent / "elsewhere")
    tree.symlink_to(checkout.folder.parent / "elsewhere")
    Replace("chat_tests.py", "Where is my parcel?", "Where is my package?")(checkout)


def _make_read_only(checkout: Checkout) -> None:
    for path in (checkout.folder / SNAPSHOTS).rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)


def _touch(checkout: Checkout) -> None:
    for path in (checkout.folder / SNAPSHOTS).rglob("*.json"):
        path.touch()


def _approve_more(checkout: Checkout) -> None:
    Append("chat_tests.py", "\n\ndef test_more():\n    assert desk.ask('Is there more?')\n")(checkout)
    RECORD_CHAT(checkout)
    APPROVE_ALL(checkout)


def approve_change(checkout: Checkout) -> None:
    """A changed prompt, recorded and approved."""
    Replace("chat_tests.py", "Where is my parcel?", "Where is my package?")(checkout)
    RECORD_CHAT(checkout)
    APPROVE_ALL(checkout)


def _approve_removal(checkout: Checkout) -> None:
    Replace("chat_tests.py", 'assert len(desk.stream("Tell me a story.")) > 1', "assert desk")(checkout)
    name = _find(checkout, RECORD).stem
    Command(("snapshot", "rm", name, "--reason", "Nobody asks any more"))(checkout)


def _rebuild(checkout: Checkout) -> None:
    rebuild_manifest(str(checkout.folder / SNAPSHOTS))


FIRST = ("snapshots", 0)
EDITS = [
    red("the answer in a record is another", _edit(RECORD, _set(*FIRST, "response", "content", to="Forged.")), says="SN3"),
    red("the prompt in a record is another", _edit(RECORD, _set(*FIRST, "request", "messages", 0, "content", to="x")), says="SN3"),
    red("the model in a record is another", _edit(RECORD, _set(*FIRST, "request", "model", to="gpt-9")), says="SN3"),
    red("the time in a record is another", _edit(RECORD, _set(*FIRST, "timestamp", to="2026-01-01T00:00:00.000Z")), says="SN3|MF"),
    red("the scopes of a record are others", _edit(RECORD, _set(*FIRST, "source", "scopes", 0, "scope", to="x::y")), says="SN3"),
    red("the hash of a record is another", _edit(RECORD, _set(*FIRST, "hash", to="sha256:" + "0" * 64)), says="SN3"),
    red("the hash of a document is another", _edit(RECORD, _set("hash", to="sha256:" + "0" * 64)), says="SN4"),
    red("a raw response is another", _edit(RAW, lambda value: value.update(forged=True)), says="SN[79]"),
    red("a raw response has another line end", _with_line_ends, says="SN7"),
    red("a raw response is that of another call", _swap_raw, says="SN[79]"),
    red("a record and all its hashes are forged", forge_record, says="SN9|AP3"),
    red("the request of a record and all its hashes are forged",
        lambda checkout: forge_record(checkout, ("request", "max_tokens"), 61), says="SN9|AP3"),
    red("the reason of an approval is another", _edit(APPROVAL, _set("reason", to="Because.")), says="AP2"),
    red("the author of an approval is another", _edit(APPROVAL, _set("approved_by", "name", to="Eve")), says="AP[12]"),
    red("the time of an approval is another", _edit(APPROVAL, _set("approved_at", to="2026-01-01T00:00:00.000Z")), says="AP[12]"),
    red("an approval has another name", _rename_approval, says="AP[123]"),
    red("an approval is gone", Remove(f"{SNAPSHOTS}/approvals/*.json"), says="AP3"),
    red("the hash of the manifest is another", _edit("manifest.json", _set("hash", to="sha256:" + "0" * 64)), says="MF7"),
    red("an entry of the manifest is gone", _edit("manifest.json", lambda value: value["snapshots"].pop()), says="MF[47]"),
    red("an entry of the manifest leads out of the tree",
        _edit("manifest.json", _set("snapshots", 0, "file", to="../x.json")), says="MF[59]"),
    red("a record and its raw response are gone", Remove(f"{SNAPSHOTS}/openai/stream-*.json"),
        Remove(f"{SNAPSHOTS}/wire/stream-*.json"), _rebuild, says="AP6"),
    red("a record lost its raw response", _drop_raw, says="AP|SN"),
    red("a strange file lies in the tree", Write(f"{SNAPSHOTS}/notes.txt", "x"), says="SN6"),
    red("a strange folder lies in the tree", Write(f"{SNAPSHOTS}/OpenAI/x.json", "{}"), says="SN6"),
    red("a copy of a record lies in the tree", _copy_record, says="SN5|MF4"),
    not_green("a record is not JSON", lambda checkout: _find(checkout, RECORD).write_text("<<<<<<< HEAD\n"), says="JSON|PARSE|conflict"),
    red("a record has another version", _edit(RECORD, _set("version", to="2.0.0")), says="SN2|SN1"),
    red("a record is approved and rolled back", _roll_back, says="AP"),
    red("an approval between two others is gone", _drop_middle, says="AP"),
    red("the first approval of three is gone", _drop_first, says="AP"),
]  # fmt: skip


def _tracked(name: str) -> Case:
    return unchecked(f"Git tracks .ai-tests/{name}", Write(f".ai-tests/{name}", "x"), commit, says="TF208")


JOURNAL = 'traceforge journal 2 {} {}\n{{"changes":[]}}'.format("0" * 64, "0" * 64)
BROUGHT = [
    *map(_tracked, ("approve.journal", "match.key", "pending/x.json", "traces/x.json", "check-live/x.jsonl", "spool/x")),
    unchecked("an unpacked journal lies in the folder", Write(".ai-tests/approve.journal", JOURNAL), says="TF205"),
    unchecked("an unpacked journal lies in the folder of a build", Write(".ai-tests/approve.journal", JOURNAL), says="TF205",
              variables={"CI": "true"}),
    unchecked("Git cannot say in a build what it tracks", Write(".ai-tests/x", "x"),
              lambda checkout: (checkout.folder / ".git" / "index").write_bytes(b"damaged"), variables={"CI": "true"}, says="TF201",
              ways=(TEST, PYTEST)),
    not_green("the state folder is a link", lambda checkout: (checkout.folder / ".ai-tests").symlink_to("/tmp"), commit,
              says="TF|link", ways=(TEST,)),
    red("attributes of Git hide the tree", Write(".gitattributes", ".ai-snapshots/** export-ignore -diff text eol=crlf\n"),
        _with_line_ends, says="SN7", ways=(TEST,)),
    not_green("the tree is a link", _link_tree, says="link|SN6|SN|GT2", ways=(TEST,)),
]  # fmt: skip


HARMLESS = [
    green("the state folder is there and ignored", Write(".ai-tests/.gitignore", "*\n")),
    green("the state folder has an ignored file", Write(".ai-tests/.gitignore", "*\n"), Write(".ai-tests/notes", "x")),
    green("Git tracks the file that ignores the state folder", Write(".ai-tests/.gitignore", "*\n"), commit, ways=(TEST, PYTEST)),
    green("the checkout has other commits", Write("NOTES.md", "x\n"), commit, ways=(TEST,)),
    green("the checkout is on a branch", Git(("checkout", "-qb", "other")), ways=(TEST,)),
    green("the checkout is detached", Git(("checkout", "-q", "--detach")), ways=(TEST,)),
    green("the checkout has no Git", Remove(".git"), ways=(TEST, PYTEST, XDIST)),
    green("the snapshots are not committed yet", Git(("rm", "-rq", "--cached", SNAPSHOTS)), ways=(TEST,)),
    green("the snapshots cannot be written", _make_read_only, ways=(TEST, PYTEST)),
    green("a file of the system lies in the tree", Write(f"{SNAPSHOTS}/.DS_Store", "x"), ways=(TEST, PYTEST)),
    green("files have other times", _touch, ways=(TEST,)),
    green("init runs in a clone", Command(("init",)), ways=(TEST, PYTEST)),
    green("another call is approved", _approve_more, tests="chat_tests.py", ways=(TEST, PYTEST)),
    green("a changed call is approved", approve_change, tests="chat_tests.py", ways=(TEST, PYTEST)),
    green("a removal is approved", _approve_removal, tests="chat_tests.py", ways=(TEST, PYTEST)),
]  # fmt: skip


CASES = {"an edited tree": EDITS, "what a pull request brings": BROUGHT, "another checkout": HARMLESS}
