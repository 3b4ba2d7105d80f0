"""A trace as a conversation: turns with their parts, each tool call with its result, the answer, and how it ended.

In: the body of a valid trace. Out: plain data for `templates/macros/conversation.html`, with texts as escaped HTML.
Never: drops a part (`message_parts`) without counting it; shows more turns, parts or text than a page can hold;
shows a picture from elsewhere.

The answers of a model are rendered as Markdown. Prompts are shown as they were sent, because their exact text counts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby

from markupsafe import Markup

from traceforge.canon import JSON, JSONObject
from traceforge.compare.conversation_frames import SERVER, SpokenFrame, list_spoken_frames
from traceforge.compare.json_diff import ABSENT
from traceforge.compare.text_layout import find_layout
from traceforge.ui.views.image_view import IMAGE_BYTES_MAX
from traceforge.ui.views.json_view import json_html
from traceforge.ui.views.message_parts import MessagePart, PartKind, list_parts
from traceforge.ui.views.safe_markdown import render_markdown
from traceforge.ui.views.text_view import PageBudget, clip_text, visible_html
from traceforge.wire.unified import as_object, as_text, list_objects, without_fields

TURNS_MAX = 400  # Of each side; a longer conversation shows its beginning and its end.
PARTS_MAX = 2_000  # Of each side.
IMAGE_CHARS_LIMIT = 4 * IMAGE_BYTES_MAX  # Base64 of all pictures of one page.
JSON_CHARS_MAX = 500_000  # A text that long is not parsed to see whether it is JSON.

_PLAIN_FIELDS = frozenset({"object", "id", "created", "model", "choices", "usage"})
_ANSWER_FIELDS = (
    "index",
    "message",
    "text",
    "finish_reason",
    "provider_finish_reason",
    "reasoning",
    "implicit_index",
)


@dataclass(frozen=True)
class PartView:
    """One part of a turn, ready for a template."""

    kind: PartKind
    title: str = ""
    html: Markup = field(default_factory=Markup)
    tail_html: Markup = field(default_factory=Markup)
    fold_label: str = ""
    omitted: int = 0  # characters that are not on the page
    is_markdown: bool = False
    is_json: bool = False
    image: str = ""
    call_id: str = ""
    is_error: bool = False
    parts: tuple[PartView, ...] = ()
    omitted_parts: int = 0
    results: tuple[PartView, ...] = ()  # of a tool call
    other_html: Markup = field(default_factory=Markup)


@dataclass(frozen=True)
class TurnView:
    """What one side said. `number` counts the messages of the request, or the choices of the answer."""

    role: str
    number: int
    name: str = ""
    is_answer: bool = False
    finish_reason: str = ""
    parts: tuple[PartView, ...] = ()
    omitted_parts: int = 0
    omitted_turns: int = 0  # before this one


@dataclass(frozen=True)
class ConversationView:
    """All turns of a call, and the error that ended it, if one did."""

    turns: tuple[TurnView, ...]
    error: str = ""
    has_answer: bool = True

    @property
    def part_count(self) -> int:
        """How many parts are shown, with those inside of others."""
        return sum(_count_parts(turn.parts) for turn in self.turns)


@dataclass(frozen=True)
class _Turn:
    """A turn before its texts are rendered."""

    view: TurnView
    parts: list[MessagePart]


def view_conversation(body: JSONObject) -> ConversationView:
    """The conversation of a trace (`Trace.body`)."""
    spoken = list_spoken_frames(body.get("provider_request"), body.get("provider_response"))
    if spoken is None:
        request_turns, answer_turns = _request_turns(body), _answer_turns(body)
    else:
        request_turns, answer_turns = _spoken_turns(spoken), []
    turns = _pair_results([*_leave_out_turns(request_turns), *_leave_out_turns(answer_turns)])
    metadata = as_object(body.get("metadata"))
    error = as_text(metadata.get("error")) if metadata.get("status") == "error" else ""
    has_answer = body.get("response") is not None or body.get("provider_response") is not None
    return ConversationView(tuple(turns), error, has_answer or bool(answer_turns))


def _spoken_turns(spoken: list[SpokenFrame]) -> list[_Turn]:
    """The frames of a WebSocket, one side after the other."""
    runs = [(side, list(frames)) for side, frames in groupby(spoken, key=lambda frame: frame.side)]
    return [
        _Turn(TurnView(side, number, is_answer=side == SERVER), [_frame_part(frame) for frame in frames])
        for number, (side, frames) in enumerate(runs)
    ]


def _frame_part(frame: SpokenFrame) -> MessagePart:
    if isinstance(frame.value, (dict, list)):
        return MessagePart("json", frame.title, value=frame.value)
    return MessagePart("text", text=frame.text)


def view_messages(messages: Iterable[JSONObject]) -> ConversationView:
    """The conversation of messages in the unified view, as a branch of the context store has them."""
    turns = [_message_turn(message, number) for number, message in enumerate(messages)]
    return ConversationView(tuple(_pair_results(_leave_out_turns(turns))))


def _request_turns(body: JSONObject) -> list[_Turn]:
    request = as_object(body.get("request"))
    turns = [_message_turn(message, number) for number, message in enumerate(list_objects(request.get("messages")))]
    for name in ("prompt", "input"):
        if request.get(name) is not None:
            turns.append(_Turn(TurnView("user", len(turns), name), list_parts({"content": request[name]})))
    native = body.get("provider_request")
    if not turns and native is not None and native not in ("", {}):
        turns.append(_Turn(TurnView("request", 0), [_whole_part(native)]))
    return turns


def _message_turn(message: JSONObject, number: int) -> _Turn:
    role, name = as_text(message.get("role")) or "unknown", as_text(message.get("name"))
    return _Turn(TurnView(role, number, name), list_parts(message))


def _answer_turns(body: JSONObject) -> list[_Turn]:
    response = body.get("response")
    native = body.get("provider_response")
    choices = list_objects(as_object(response).get("choices"))
    turns = [_choice_turn(choice, number) for number, choice in enumerate(choices)]
    if turns:
        return turns
    body_fields = without_fields(as_object(response), _PLAIN_FIELDS) or native
    if body_fields is None or body_fields in ("", {}):
        return []
    return [_Turn(TurnView("response", 0, is_answer=True), [_whole_part(body_fields)])]


def _choice_turn(choice: JSONObject, number: int) -> _Turn:
    message = as_object(choice.get("message"))
    plain: JSONObject = {name: choice[field] for name, field in _CHOICE_TEXTS if choice.get(field) is not None}
    parts = list_parts(message or plain)
    other: JSONObject = {
        name: value for name, value in choice.items() if name not in _ANSWER_FIELDS and value is not None
    }
    if other:
        parts.append(MessagePart("json", "other fields", value=other))
    reason = as_text(choice.get("finish_reason")) or as_text(choice.get("provider_finish_reason"))
    view = TurnView(as_text(message.get("role")) or "assistant", number, "", True, reason)
    return _Turn(view, parts)


_CHOICE_TEXTS = (("content", "text"), ("reasoning", "reasoning"))


def _whole_part(value: JSON) -> MessagePart:
    return MessagePart("text", text=value) if isinstance(value, str) else MessagePart("json", value=value)


def _leave_out_turns(turns: list[_Turn]) -> list[_Turn]:
    """The first and the last turns of a conversation that is too long for a page."""
    omitted = len(turns) - TURNS_MAX
    if omitted <= 0:
        return turns
    last = turns[len(turns) - TURNS_MAX // 2 :]
    after_gap = _Turn(replace(last[0].view, omitted_turns=omitted), last[0].parts)
    return [*turns[: TURNS_MAX - len(last)], after_gap, *last[1:]]


class _ConversationBudget(PageBudget):
    """How much text, how many parts and pictures one side of a conversation may still have on the page."""

    def __init__(self) -> None:
        super().__init__()
        self.image_chars = IMAGE_CHARS_LIMIT
        self.parts_left = PARTS_MAX

    def render(self, part: MessagePart, is_markdown: bool) -> PartView:
        """Render one part, with the parts inside of it."""
        self.parts_left -= 1
        inner_parts = [self.render(inner, is_markdown=False) for inner in part.parts if self.parts_left > 0]
        view = PartView(
            part.kind,
            clip_text(part.title),
            call_id=clip_text(part.call_id),
            is_error=part.is_error,
            parts=tuple(inner_parts),
            omitted_parts=len(part.parts) - len(inner_parts),
            other_html=json_html(part.other, self) if part.other else Markup(),
        )
        if part.image and len(part.image) <= self.image_chars:
            self.image_chars -= len(part.image)
            return replace(view, image=part.image)
        if part.image:
            return replace(view, title=f"{part.title}, not shown: the page has too many pictures")
        value = part.value if part.value is not None or part.kind != "text" else _find_json(part.text)
        if value is not None or not part.text:
            has_value = value is not None or part.kind == "json"
            return replace(view, html=json_html(value, self) if has_value else Markup(), is_json=has_value)
        return self.render_text(view, part.text, is_markdown and part.kind in ("text", "reasoning"))

    def render_text(self, view: PartView, text: str, is_markdown: bool) -> PartView:
        folded = self.fold(text)
        render = render_markdown if is_markdown else visible_html
        html, tail_html = render(folded.head), render(folded.tail) if folded.tail else Markup()
        self.spend(html + tail_html)
        return replace(
            view,
            html=html,
            tail_html=tail_html,
            fold_label=folded.label or (f"{folded.omitted:,} more characters" if folded.omitted else ""),
            omitted=folded.omitted,
            is_markdown=is_markdown,
        )


def _find_json(text: str) -> JSON:
    """The object or list that a text is, such as a structured output; None if it is another text."""
    if len(text) > JSON_CHARS_MAX:
        return None
    value = find_layout(text).value
    return None if value is ABSENT else value


def _pair_results(turns: list[_Turn]) -> list[TurnView]:
    """Put every result under the call that it answers; a turn of which nothing is left is dropped.

    The n-th result of an id belongs to the n-th call of that id. Gemini's calls have no id: there the name counts.
    """
    request_budget, answer_budget = _ConversationBudget(), _ConversationBudget()
    waiting: dict[str, deque[list[PartView]]] = defaultdict(deque)
    rendered: list[tuple[TurnView, list[tuple[PartView, list[PartView]]]]] = []
    for turn in turns:
        budget = answer_budget if turn.view.is_answer else request_budget
        parts: list[tuple[PartView, list[PartView]]] = []
        omitted_parts = 0
        for part in turn.parts:
            if budget.parts_left <= 0:
                omitted_parts += 1
                continue
            view = budget.render(part, turn.view.role == "assistant")
            calls = waiting.get(_pair_key(part)) if part.kind == "tool_result" else None
            if calls:
                calls.popleft().append(view)
                continue
            results: list[PartView] = []
            parts.append((view, results))
            if part.kind == "tool_call":
                waiting[_pair_key(part)].append(results)
        if parts or omitted_parts or not turn.parts:
            rendered.append((replace(turn.view, omitted_parts=omitted_parts), parts))
    return [
        replace(view, parts=tuple(replace(part, results=tuple(results)) for part, results in parts))
        for view, parts in rendered
    ]


def _pair_key(part: MessagePart) -> str:
    return f"id {part.call_id}" if part.call_id else f"name {part.title}"


def _count_parts(parts: Iterable[PartView]) -> int:
    return sum(1 + _count_parts(part.parts) + _count_parts(part.results) for part in parts)
