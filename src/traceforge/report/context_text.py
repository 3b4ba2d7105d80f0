"""Lines of the `traceforge context` commands.

In: objects of the store. Out: lines of at most 80 columns, unless the content is wider. Never: a control character of
stored text.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from traceforge.canon import JSON, json_bytes
from traceforge.context.compiler.block_diff import BlockChange, BlockChangeKind
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
    Rendering,
    Response,
    Session,
    Snapshot,
)
from traceforge.report.diff_text import text_diff
from traceforge.report.text_format import count
from traceforge.terminal import one_line

WIDTH = 80


def field_lines(answer: Any) -> list[str]:  # noqa: ANN401 (any answer of the store)
    """Every field of an object, one per line."""
    value: Mapping[str, JSON] = msgspec.to_builtins(answer)
    members = {name: member for name, member in value.items() if name != "object"}
    width = max(map(len, members))
    return [f"{name:<{width}}  {_value(member)}" for name, member in members.items()]


def _value(value: JSON) -> str:
    if isinstance(value, str):
        return one_line(value)
    return "-" if value is None else one_line(json_bytes(value).decode())


def project_line(project: Project) -> str:
    """A project in one line."""
    return f"{project.id}  generation {project.generation}  {one_line(project.name)}"


def api_key_line(api_key: ApiKey) -> str:
    """A key in one line."""
    return f"{api_key.id}  {','.join(api_key.scopes):<16}  {one_line(api_key.label)}".rstrip()


def artifact_line(artifact: Artifact) -> str:
    """An artifact in one line."""
    return f"{artifact.id}  {artifact.artifact_type.value:<18}  {artifact.size_bytes:>9} bytes"


def bundle_line(bundle: Bundle) -> str:
    """A bundle in one line."""
    return f"{bundle.id}  {count(len(bundle.items), 'item')}"


def purge_job_line(job: PurgeJob) -> str:
    """A purge job in one line."""
    return f"{job.id}  {job.status.value:<9}  {job.created_at}  {count(len(job.targets), 'id')}"


def receipt_lines(receipt: Receipt) -> list[str]:
    """What a purge removed, what it made unreadable, what it did not find, and the generation after it."""
    lines = [f"receipt {receipt.id} of {receipt.purge_job_id}, generation {receipt.generation}"]
    for label, groups in (("removed", receipt.removed), ("no longer readable", receipt.invalidated)):
        for group in groups:
            lines.append(f"{label}: {count(group.count, group.kind.replace('_', ' '))}")
            lines += [f"  {name}" for name in group.ids]
    for group in receipt.not_found:
        lines.append(f"not found in this traces folder: {count(group.count, group.kind)}")
        lines += [f"  {name}" for name in group.ids]
        lines.append("A server that recorded them removes them within seconds. Without one, run this where they are:")
        lines.append(f"  traceforge context purge traces {receipt.purge_job_id}")
    return lines if len(lines) > 1 else [*lines, "nothing to remove"]


def session_line(session: Session) -> str:
    """A session in one line."""
    return f"{session.id}  {session.status.value:<10}  {session.created_at}"


def branch_line(branch: Branch) -> str:
    """A branch in one line."""
    return f"{branch.id}  version {branch.version:<6}  {one_line(branch.label)}".rstrip()


def event_line(event: Event) -> str:
    """The sequence number, id and type of an event, and the beginning of its content."""
    head = f"{event.sequence:>5}  {event.id}  {event.event_type.value:<17} "
    return f"{head} {clip(event_text(event), WIDTH - len(head) - 1)}".rstrip()


def event_text(event: Event) -> str:
    """The content of an event in one line."""
    if event.purged_by is not None:
        return f"(purged: {event.purged_by})"
    if event.payload_ref is not None:
        return event.payload_ref
    return one_line(_content_text(event.content))


def _content_text(content: Any) -> str:  # noqa: ANN401 (JSON)
    """The text of a message; any other content as JSON."""
    if isinstance(content, str):
        return content
    return _message_text(content) or json_bytes(content).decode()


def _message_text(content: Any) -> str:  # noqa: ANN401 (JSON, or bytes)
    """The text of a message that holds one text and calls no tool; "" for anything else."""
    if isinstance(content, dict) and isinstance(content.get("content"), str) and not content.get("tool_calls"):
        return str(content["content"])
    return ""


def response_lines(response: Response) -> list[str]:
    """Every field of a response, and its output below."""
    lines = [line for line in field_lines(response) if not line.startswith("output ")]
    if response.output is None:
        return lines
    return [*lines, "", *(one_line(line) for line in _content_text(response.output).split("\n"))]


def response_line(response: Response) -> str:
    """A response in one line, with the parameters of its call."""
    target = one_line(f"{response.target.provider}/{response.target.model}")
    parameters = _value(response.parameters) if response.parameters else ""
    return f"{response.id}  {response.status.value:<10}  {target}  {parameters}".rstrip()


def snapshot_line(snapshot: Snapshot) -> str:
    """A snapshot in one line."""
    blocks = count(len(snapshot.ordered_block_manifest), "block")
    return f"{snapshot.id}  version {snapshot.branch_version:<6}  {snapshot.prompt_compiler_revision}  {blocks}"


def block_text(block: Block, content: ContentBlock) -> str:
    """A block in one line, and its text below, indented."""
    head = f"{block.id}  {block.role:<9}  {block.kind:<22}  {block.content_digest[7:19]}"
    if content.hidden:
        text = "(deleted)"
    elif isinstance(content.content, bytes):
        text = f"({count(len(content.content), 'byte')} of {content.media_type})"
    else:
        text = _content_text(content.content)
    return "\n".join([head, *(f"    {one_line(line)}".rstrip() for line in text.split("\n"))])


def content_fields(block: ContentBlock) -> dict[str, JSON]:
    """The content of a block as fields of JSON; none if its artifact or session was deleted."""
    if block.hidden:
        return {}
    if isinstance(block.content, bytes):
        return {"content_base64": b64encode(block.content).decode(), "content_media_type": block.media_type}
    return {"content": block.content}


def rendering_lines(rendering: Rendering) -> list[str]:
    """The request that a provider would be sent: method and path, and the body as indented JSON."""
    body = json_bytes(rendering.body, indent=True).decode()
    return [f"POST {one_line(rendering.path)}", *map(one_line, body.split("\n"))]


def clip(text: str, width: int) -> str:
    """Cut a text to a width, with … at the end."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def branch_graph_lines(
    branches: Sequence[Branch], events: Mapping[str, Sequence[Event]], *, colours: bool = False, width: int = WIDTH
) -> list[str]:
    """Draw the branches of a session, oldest event first; a fork stands below the event where it began.

    `events` maps a branch's id to the events that were appended on that branch itself.
    """
    forks: dict[tuple[str, str | None], list[Branch]] = {}
    branch_ids = {branch.id for branch in branches}
    owners = {event.id: branch_id for branch_id, own in events.items() for event in own}
    for branch in branches:
        if branch.parent_branch_id in branch_ids:
            at = branch.forked_from_event_id  # The parent may have inherited the event itself.
            forks.setdefault((owners.get(at, "") if at else str(branch.parent_branch_id), at), []).append(branch)
    roots = [branch for branch in branches if branch.parent_branch_id not in branch_ids]
    drawing = _BranchGraph(events, forks, colours, width)
    for branch in roots:
        drawing.draw_branch(branch, "")
    return drawing.lines


class _BranchGraph:
    def __init__(
        self, events: Mapping[str, Sequence[Event]], forks: Mapping[tuple[str, str | None], list[Branch]],
        colours: bool, width: int,
    ) -> None:  # fmt: skip
        self.lines: list[str] = []
        self._events = events
        self._forks = forks
        self._colours = colours
        self._width = width

    def draw_branch(self, branch: Branch, indent: str) -> None:
        label = f" {one_line(branch.label)}" if branch.label else ""
        title = clip(f"{branch.id} version {branch.version}{label}", self._width - len(indent) - 2)
        self.lines.append(f"{indent}{self._paint('*', 32)} {self._paint(title, 1)}")
        self._draw_forks(branch.id, None, indent)
        for event in self._events.get(branch.id, ()):
            self._draw_event(event, indent)
            self._draw_forks(branch.id, event.id, indent)

    def _draw_forks(self, branch_id: str, event_id: str | None, indent: str) -> None:
        for fork in self._forks.get((branch_id, event_id), ()):
            self.lines.append(f"{indent}|\\")
            self.draw_branch(fork, f"{indent}| ")

    def _draw_event(self, event: Event, indent: str) -> None:
        head = f"{indent}| {event.sequence:>3} {event.id} {event.event_type.value:<17}"
        origin = event.merged_from or event.rebased_from
        text = f"<- {origin} {event_text(event)}" if origin else event_text(event)
        self.lines.append(f"{head} {clip(text, self._width - len(head) - 1)}".rstrip())

    def _paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text


_MARKS = {"same": " ", "changed": "~", "added": "+", "removed": "-", "moved": ">"}


def block_change_lines(changes: Sequence[BlockChange]) -> list[str]:
    """One line per block with its kind of change, and the changed words below it."""
    lines = []
    for change in changes:
        block = change.after or change.before
        assert block is not None
        head = f"{_MARKS[change.kind.value]} {block.block_id} {block.role:<9} {block.kind:<20}"
        if change.kind is BlockChangeKind.CHANGED and change.words is not None:
            lines.append(f"{head.rstrip()}{text_diff(change.words.before, change.words.after)}")
        else:
            text = _block_text(block)
            lines.append(f"{head} {clip(text, WIDTH - len(head) - 1)}".rstrip())
    counts = Counter(change.kind.value for change in changes)
    lines.append(", ".join(f"{counts[kind]} {kind}" for kind in _MARKS if counts[kind]) or "no blocks")
    return lines


def _block_text(block: ContentBlock) -> str:
    if block.hidden:
        return "(deleted)"
    return "(bytes)" if block.text is None else one_line(_message_text(block.content) or block.text)
