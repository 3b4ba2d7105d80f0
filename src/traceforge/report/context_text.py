"""How the context store looks on a terminal.

In: objects of the store. Out: lines, of which none is wider than 80 columns but for content that is. Never: a control
character of somebody's text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from traceforge.canon import JSON, json_bytes
from traceforge.context.compiler.block_diff import BlockChange, Change
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import (
    ApiKey,
    Artifact,
    Block,
    Branch,
    Bundle,
    Event,
    Project,
    PurgeJob,
    Receipt,
    Response,
    Session,
    Snapshot,
)
from traceforge.report.diff_text import text_diff
from traceforge.report.text_format import count, one_line

WIDTH = 80


def fields(answer: Any) -> list[str]:  # noqa: ANN401 (any answer of the store)
    """Every field of an object, a line each."""
    value: Mapping[str, JSON] = msgspec.to_builtins(answer)
    shown = {name: member for name, member in value.items() if name != "object"}
    width = max(map(len, shown))
    return [f"{name:<{width}}  {_value(member)}" for name, member in shown.items()]


def _value(value: JSON) -> str:
    if isinstance(value, str):
        return one_line(value)
    return "-" if value is None else one_line(json_bytes(value).decode())


def project_line(one: Project) -> str:
    """A project in one line."""
    return f"{one.id}  generation {one.generation}  {one_line(one.name)}"


def key_line(one: ApiKey) -> str:
    """A key in one line."""
    return f"{one.id}  {','.join(one.scopes):<16}  {one_line(one.label)}".rstrip()


def artifact_line(one: Artifact) -> str:
    """An artifact in one line."""
    return f"{one.id}  {one.artifact_type.value:<18}  {one.size_bytes:>9} bytes"


def bundle_line(one: Bundle) -> str:
    """A bundle in one line."""
    return f"{one.id}  {count(len(one.items), 'item')}"


def purge_line(one: PurgeJob) -> str:
    """A purge job in one line."""
    return f"{one.id}  {one.status.value:<9}  {one.created_at}  {count(len(one.targets), 'id')}"


def receipt_lines(one: Receipt) -> list[str]:
    """A receipt: what went, what cannot be read because of it, and the generation after it."""
    lines = [f"receipt {one.id} of {one.purge_job_id}, generation {one.generation}"]
    for what, all_of in (("removed", one.removed), ("can be read no more", one.invalidated)):
        for each in all_of:
            lines.append(f"{what}: {count(each.count, each.kind.replace('_', ' '))}")
            lines += [f"  {name}" for name in each.ids]
    return lines if len(lines) > 1 else [*lines, "nothing was left to remove"]


def session_line(one: Session) -> str:
    """A session in one line."""
    return f"{one.id}  {one.status.value:<10}  {one.created_at}"


def branch_line(one: Branch) -> str:
    """A branch in one line."""
    return f"{one.id}  version {one.version:<6}  {one_line(one.label)}".rstrip()


def event_line(one: Event) -> str:
    """An event in one line: its place, its kind, and how its content begins."""
    head = f"{one.sequence:>5}  {one.id}  {one.event_type.value:<17} "
    return f"{head} {clip(content_text(one), WIDTH - len(head) - 1)}".rstrip()


def content_text(one: Event) -> str:
    """What an event says, in one line."""
    if one.purged_by is not None:
        return f"(purged: {one.purged_by})"
    if one.payload_ref is not None:
        return one.payload_ref
    return one_line(_said(one.content))


def _said(content: Any) -> str:  # noqa: ANN401 (JSON)
    """The text of a content; of other values than messages, their JSON."""
    if isinstance(content, str):
        return content
    return _message_text(content) or json_bytes(content).decode()


def _message_text(content: Any) -> str:  # noqa: ANN401 (JSON, or bytes)
    """What a message says that holds one text and calls no tool; "" for everything else."""
    if isinstance(content, dict) and isinstance(content.get("content"), str) and not content.get("tool_calls"):
        return str(content["content"])
    return ""


def response_lines(one: Response) -> list[str]:
    """A response: every field, and below them what it says, as it says it."""
    lines = [line for line in fields(one) if not line.startswith("output ")]
    if one.output is None:
        return lines
    return [*lines, "", *(one_line(line) for line in _said(one.output).split("\n"))]


def snapshot_line(one: Snapshot) -> str:
    """A snapshot in one line."""
    blocks = count(len(one.ordered_block_manifest), "block")
    return f"{one.id}  version {one.branch_version:<6}  {one.prompt_compiler_revision}  {blocks}"


def block_line(one: Block) -> str:
    """A block in one line."""
    return f"{one.id}  {one.role:<9}  {one.kind:<22}  {one.content_digest[7:19]}"


def clip(text: str, width: int) -> str:
    """A text that fits."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def graph(
    branches: Sequence[Branch], events: Mapping[str, Sequence[Event]], *, colours: bool = False, width: int = WIDTH
) -> list[str]:
    """Draw the branches of a session, the oldest event first; a fork stands below the event where it began.

    `events` are those that each branch appended on its own, by the branch's id.
    """
    forks: dict[tuple[str, str | None], list[Branch]] = {}
    known = {one.id for one in branches}
    owners = {event.id: branch_id for branch_id, own in events.items() for event in own}
    for one in branches:
        if one.parent_branch_id in known:
            at = one.forked_from_event_id  # It may be an event that the parent had inherited itself.
            forks.setdefault((owners.get(at, "") if at else str(one.parent_branch_id), at), []).append(one)
    roots = [one for one in branches if one.parent_branch_id not in known]
    drawing = _Drawing(events, forks, colours, width)
    for one in roots:
        drawing.branch(one, "")
    return drawing.lines


class _Drawing:
    def __init__(
        self, events: Mapping[str, Sequence[Event]], forks: Mapping[tuple[str, str | None], list[Branch]],
        colours: bool, width: int,
    ) -> None:  # fmt: skip
        self.lines: list[str] = []
        self._events = events
        self._forks = forks
        self._colours = colours
        self._width = width

    def branch(self, one: Branch, indent: str) -> None:
        label = f" {one_line(one.label)}" if one.label else ""
        told = clip(f"{one.id} version {one.version}{label}", self._width - len(indent) - 2)
        self.lines.append(f"{indent}{self._paint('*', 32)} {self._paint(told, 1)}")
        self._below(one.id, None, indent)
        for event in self._events.get(one.id, ()):
            self._event(event, indent)
            self._below(one.id, event.id, indent)

    def _below(self, branch_id: str, event_id: str | None, indent: str) -> None:
        for fork in self._forks.get((branch_id, event_id), ()):
            self.lines.append(f"{indent}|\\")
            self.branch(fork, f"{indent}| ")

    def _event(self, event: Event, indent: str) -> None:
        head = f"{indent}| {event.sequence:>3} {event.id} {event.event_type.value:<17}"
        origin = event.merged_from or event.rebased_from
        said = f"<- {origin} {content_text(event)}" if origin else content_text(event)
        self.lines.append(f"{head} {clip(said, self._width - len(head) - 1)}".rstrip())

    def _paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text


_MARKS = {"same": " ", "changed": "~", "added": "+", "removed": "-", "moved": ">"}


def block_changes(found: Sequence[BlockChange]) -> list[str]:
    """What became of each block, a line each, and the words that changed below it."""
    lines = []
    for one in found:
        block = one.after or one.before
        assert block is not None
        head = f"{_MARKS[one.kind.value]} {block.block_id} {block.role:<9} {block.kind:<20}"
        if one.kind is Change.CHANGED and one.words is not None:
            lines.append(f"{head.rstrip()}{text_diff(one.words.before, one.words.after)}")
        else:
            said = _block_said(block)
            lines.append(f"{head} {clip(said, WIDTH - len(head) - 1)}".rstrip())
    counts = Counter(one.kind.value for one in found)
    lines.append(", ".join(f"{counts[kind]} {kind}" for kind in _MARKS if counts[kind]) or "no blocks")
    return lines


def _block_said(block: ContentBlock) -> str:
    if block.hidden:
        return "(deleted)"
    return "(bytes)" if block.text is None else one_line(_message_text(block.content) or block.text)
