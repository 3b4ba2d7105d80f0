"""The one redaction engine.

In: texts, JSON values, headers, URLs, bodies and streams, as they were sent. Out: the same without secrets, and a log
of the removed values, in memory only. Never: does I/O, changes its input, depends on a clock or on chance: the same
input always gives the same output, so that a redacted request still matches its recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

from traceforge.canon import JSON, digest_bytes, has_repeated_names, json_bytes, json_path, parse_json
from traceforge.config import Config
from traceforge.errors import NotJSON
from traceforge.redact.body_encodings import (
    Part,
    WideText,
    begins_with_part,
    decode_part,
    find_boundary,
    find_continued_values,
    find_encoded_words,
    find_parts,
    read_wide_text,
)
from traceforge.redact.command_lines import redact_command
from traceforge.redact.compressed_bodies import is_damaged, list_compressions
from traceforge.redact.conversations import redact_cut_conversation, redact_document
from traceforge.redact.event_frames import redact_frames
from traceforge.redact.json_redaction import Slot, keep_valid_json_text, redact_line, redact_slots
from traceforge.redact.markers import SecretMarkers
from traceforge.redact.redactions import REDACTED, Redacted, Redaction, TextSpan
from traceforge.redact.repeated_values import RepeatedValues, list_values
from traceforge.redact.scanner import CHANCE_TYPES, SecretSpan, merge_spans
from traceforge.redact.secret_finder import HEADER_SEPARATOR, HeaderKind, NameKind, SecretFinder, decode, encode
from traceforge.redact.secret_names import URL_HEADERS
from traceforge.redact.stream_redaction import TextStreamRedactor, redact_array, redact_events, redact_fragments
from traceforge.redact.text_edits import ByteEdit, apply_edits, edit_spans
from traceforge.redact.url_redaction import ACCOUNT, list_accounts, redact_form, redact_url
from traceforge.wire.binary_frames import begins_with_frame
from traceforge.wire.content_encoding import EncodingState, decode_chunks

FORM_TYPE = "application/x-www-form-urlencoded"
NESTING_MAX = 4  # So many multipart and compressed bodies may be inside of each other; a deeper one is withheld.
NAMELESS_COMPRESSIONS = frozenset({"deflate", "br"})  # whose first bytes are those of other formats, too
EVENT_TYPES = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/x-jsonlines")


@dataclass(frozen=True)
class Redactor:
    """Finds and replaces secrets. Make one and keep it; any number of threads may use it.

    `fields` are more names of secret headers and fields, `patterns` more google-re2 expressions, `allow` values that
    are kept (`*` matches any text).

    Raises:
        InvalidConfig: a pattern is not a google-re2 expression; the error names every bad one.
    """

    fields: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    _finder: SecretFinder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_finder", SecretFinder(self.fields, self.patterns, self.allow))

    @classmethod
    def from_config(cls, config: Config) -> Redactor:
        """The redactor that a project has configured."""
        return cls(tuple(config.redact_fields), tuple(config.redact_patterns), tuple(config.allow))

    def with_markers(self, markers: SecretMarkers) -> Redactor:
        """The same redactor with a marker of its own for each of these secrets; `strip_markers` removes them."""
        copied = copy(self)
        finder = copy(self._finder)
        finder.markers = markers.by_secret
        object.__setattr__(copied, "_finder", finder)
        return copied

    def with_memory(self) -> Redactor:
        """The same redactor with a cache of texts without secrets, which it does not scan again: for callers that
        redact the same conversations repeatedly.
        """
        copied = copy(self)
        finder = copy(self._finder)
        finder.remembers_clean_texts, finder.clean_texts = True, set()
        object.__setattr__(copied, "_finder", finder)
        return copied

    def with_values(self, redactions: Iterable[Redaction]) -> Redactor:
        """The same redactor, which also replaces what was redacted elsewhere in the call, wherever it stands.

        Only values that are distinctive (`repeated_values`), and that no detector finds by themselves; the same
        object where there are none.
        """
        values = list_values(redactions)
        if not values:
            return self
        earlier = self._finder.repeated_values.types if self._finder.repeated_values is not None else {}
        values = {value: kind for value, kind in values.items() if value not in earlier}
        return self._with_repeated(earlier, self._drop_recognised(values) if values else values)

    def with_accounts(self, text: str) -> Redactor:
        """The same redactor, which also replaces each account of AWS that this text names with a resource."""
        earlier = self._finder.repeated_values.types if self._finder.repeated_values is not None else {}
        return self._with_repeated(earlier, dict.fromkeys(list_accounts(text), ACCOUNT))

    def _with_repeated(self, earlier: Mapping[str, str], values: dict[str, str]) -> Redactor:
        if not values:
            return self
        copied = copy(self)
        finder = self._finder.with_repeated_values(RepeatedValues({**earlier, **values}))
        object.__setattr__(copied, "_finder", finder)
        return copied

    def _drop_recognised(self, values: dict[str, str]) -> dict[str, str]:
        """Without the values that a detector finds in any text: most keys. All are scanned at once."""
        spellings = [encode(value) for value in values]
        spans = iter(self._finder.find_secrets(b"\0".join(spellings)))
        span = next(spans, None)
        unrecognised: dict[str, str] = {}
        start = 0
        for (value, kind), spelling in zip(values.items(), spellings, strict=True):
            while span is not None and span.end <= start:
                span = next(spans, None)
            if span is None or span.start > start or span.end < start + len(spelling):
                unrecognised[value] = kind
            start += len(spelling) + 1
        return unrecognised

    def find_secrets(self, text: str) -> list[TextSpan]:
        """Every secret in a text, sorted, in code points."""
        data = encode(text)
        return _spans(data, self._finder.find_secrets(data), is_ascii=text.isascii())

    def redact_text(self, text: str) -> str:
        """The text without secrets. Text that is JSON is JSON afterwards as well."""
        data = encode(text)
        spans = self._finder.find_secrets(data)
        secrets = (Redaction("", 0, item.type, decode(data[item.start : item.end])) for item in spans)
        repeating = self.with_values(secrets) if spans else self
        if repeating is not self:
            return repeating.redact_text(text)
        return (
            keep_valid_json_text(self._finder, text, decode(self._finder.replace_secrets(data, spans)))
            if spans
            else text
        )

    def redact_label(self, text: str) -> str:
        """A name, an error or another short line about a call: also without keys that are joined to other words.

        For example the name of a test, `test_x[a-sk-…]`.
        """
        cleaned = self.redact_text(text)
        return str(redact_line(self._finder, cleaned).value) if self._finder.holds_joined_key(cleaned) else cleaned

    def redact_json(self, value: JSON, path: str = "$") -> Redacted[JSON]:
        """A JSON value without secrets; the same object, if it has none.

        A value that is a secret at one place is replaced at every other as well; so in bodies and chunks.
        """
        cleaned = redact_document(self._finder, value, path)
        repeating = self.with_values(cleaned.log)
        return cleaned if repeating is self else redact_document(repeating._finder, value, path)

    def redact_headers(
        self, headers: Iterable[tuple[str, str]], path: str = "$", *, is_response: bool = False
    ) -> Redacted[list[tuple[str, str]]]:
        """Headers without secrets, in their order; those of a response also without the caller's account."""
        cleaned = list(headers)
        log: list[Redaction] = []
        slots: list[Slot] = []
        places: list[int] = []
        for place, header in enumerate(cleaned):
            if self._finder.is_clean_header(header):
                continue
            name, value = header
            if self._finder.find_name_kind(name) == NameKind.SECRET:
                change = redact_line(self._finder, name)
                name = str(change.value)
                log += [Redaction(json_path(path, name), *secret) for secret in change.secrets]
                cleaned[place] = (name, value)
            if self._finder.holds_joined_key(value):
                change = redact_line(self._finder, value)
                value = str(change.value)
                log += [Redaction(json_path(path, name), *secret) for secret in change.secrets]
                cleaned[place] = (name, value)
            if name.lower() in URL_HEADERS:
                url = self.redact_url(value, json_path(path, name))
                value, log = url.value, [*log, *url.log]
                cleaned[place] = (name, value)
            kind = self._finder.find_header_kind(name)
            if kind and self._finder.is_secret_header(name, value, is_response=is_response):
                log.append(Redaction(json_path(path, name), 0, "FIELD", value))
                cleaned[place] = (name, REDACTED)
            elif kind != HeaderKind.SECRET:
                slots.append((None, place, f"{name}{HEADER_SEPARATOR}", value, False))
                if kind != HeaderKind.RESPONSE_ACCOUNT:
                    places.append(place)
        changes = redact_slots(self._finder, slots)
        if not changes:
            self._finder.remember_clean_headers(cleaned[place] for place in places)
        for node, change in changes.items():
            assert node is not None
            assert isinstance(node[1], int)
            name = cleaned[node[1]][0]
            cleaned[node[1]] = (name, str(change.value))
            log += [Redaction(json_path(path, name), *secret) for secret in change.secrets]
        return Redacted(cleaned, log)

    def redact_url(self, url: str, path: str = "$") -> Redacted[str]:
        """A URL without user and password, secret parameters, and anything that a detector finds."""
        return redact_url(self._finder, url, path)

    def redact_command(self, words: Sequence[str]) -> str:
        """The words of a command as one line of shell, without the values of options with a secret name."""
        return redact_command(self._finder, words)

    def is_secret_parameter(self, name: str) -> bool:
        """Whether the name of a URL parameter makes its value a secret."""
        return self._finder.is_secret_parameter(name)

    def redact_body(self, data: bytes, media_type: str = "", path: str = "$") -> Redacted[bytes]:
        """A whole body without secrets; the same bytes, if it has none.

        JSON is cleaned as a value, a form by its names, events as a stream, a multipart body part by part, and
        everything else as text: binary bodies are scanned, too. UTF-16 and UTF-32 are decoded first.
        """
        cleaned = self._redact_body_once(data, media_type, path)
        repeating = self.with_values(cleaned.log) if cleaned.log else self
        return cleaned if repeating is self else repeating._redact_body_once(data, media_type, path)

    def _redact_body_once(self, data: bytes, media_type: str, path: str, depth: int = 0) -> Redacted[bytes]:
        """`depth` counts the multipart and compressed bodies around this one."""
        if begins_with_frame(data):
            return redact_frames(self._finder, data, path)
        wide = read_wide_text(data, media_type)
        if wide is None:
            return self._redact_narrow_body(data, media_type, path, depth)
        decoded = self._redact_wide_body(data, wide, media_type, path, depth)
        narrow = self._redact_narrow_body(decoded.value, media_type, path, depth)  # The mark or charset may be wrong.
        return Redacted(narrow.value, [*decoded.log, *narrow.log])

    def _redact_narrow_body(self, data: bytes, media_type: str, path: str, depth: int) -> Redacted[bytes]:
        for compression in list_compressions(data):
            if (redacted := self._redact_compressed(data, compression, path, depth)) is not None:
                return redacted
        kind = _base_media_type(media_type)
        if kind.startswith("multipart/") or begins_with_part(data):
            if depth >= NESTING_MAX:
                return _withhold_body(data, path)
            return self._redact_multipart(data, media_type, path, depth)
        if kind in EVENT_TYPES:
            events = redact_events(self._finder, [data])
            return Redacted(b"".join(events.value), events.log)
        if kind == FORM_TYPE:
            form = redact_form(self._finder, data.decode("latin-1"), path)
            return Redacted(form.value.encode("latin-1"), form.log) if form.log else Redacted(data, [])
        if data.lstrip()[:1] in (b"{", b"[", b"\x1e"):
            try:
                return self._redact_json_body(data, parse_json(data), path)
            except NotJSON:  # A stream of documents, a document that was cut off, or something else.
                return self._redact_lines(data, path)
        return self._redact_lines(data, path) if _begins_with_event(data) else self._redact_text_body(data, path)

    def _redact_lines(self, data: bytes, path: str) -> Redacted[bytes]:
        """A body that may be a stream of events or documents, and is cleaned as text as well."""
        conversation = redact_cut_conversation(self._finder, data)
        events = redact_events(self._finder, [conversation.value])
        text = self._redact_text_body(b"".join(events.value), path)
        return Redacted(text.value, [*conversation.log, *events.log, *text.log])

    def _redact_compressed(self, data: bytes, compression: str, path: str, depth: int) -> Redacted[bytes] | None:
        """A compressed body that no header calls so: replaced as a whole where it holds a secret or cannot be read.

        None where it is not compressed after all, or what it holds is clean: its bytes are then examined as they are.
        """
        decoded = decode_chunks([data], compression)
        if decoded.state in (EncodingState.DECODED, EncodingState.CUT) and depth < NESTING_MAX:
            content = self._redact_body_once(decoded.chunks[0], "", path, depth + 1)
            return Redacted(REDACTED.encode(), content.log) if content.log else None
        if decoded.state is EncodingState.STALE:
            return None
        if decoded.state is EncodingState.FAILED and compression in NAMELESS_COMPRESSIONS:
            return _withhold_body(data, path) if is_damaged(data, compression) else None
        return _withhold_body(data, path)

    def redact_chunks(self, chunks: Sequence[bytes], media_type: str = "") -> Redacted[list[bytes]]:
        """The chunks of a response without secrets: as many, cut at the same places where nothing was redacted.

        A secret that crosses the border of two chunks, or of two events in them, is found too.
        """
        cleaned = self._redact_chunks_once(chunks, media_type)
        repeating = self.with_values(cleaned.log)
        return cleaned if repeating is self else repeating._redact_chunks_once(chunks, media_type)

    def _redact_chunks_once(self, chunks: Sequence[bytes], media_type: str) -> Redacted[list[bytes]]:
        data = b"".join(chunks)
        is_encoded = (
            read_wide_text(data, media_type) is not None
            or begins_with_frame(data)
            or begins_with_part(data)
            or bool(list_compressions(data))
        )
        if not is_encoded and (_base_media_type(media_type) in EVENT_TYPES or _begins_with_event(data)):
            return redact_events(self._finder, chunks)
        array = redact_array(self._finder, chunks) if not is_encoded and data.lstrip()[:1] == b"[" else None
        if array is not None:
            return array
        body = self._redact_body_once(data, media_type, "$")
        if not body.log and body.value == data:
            return Redacted(list(chunks), [])
        edits = edit_spans(self._finder, data, self._finder.find_secrets_in_bytes(data))
        as_text = apply_edits(chunks, edits, keep_together=True)
        if b"".join(as_text) == body.value:  # Each border is known; otherwise those from the first change on shift.
            return Redacted(as_text, body.log)
        return Redacted(apply_edits(chunks, [_single_edit(data, body.value)]), body.log)

    def redact_fragments(self, fragments: Sequence[str]) -> list[str]:
        """Clean the pieces of one text, in order: as many pieces, and joined they are the cleaned text.

        A secret that goes over several is `[REDACTED]` in the first and gone in the others.
        """
        return redact_fragments(self._finder, fragments)

    def new_text_stream(self) -> TextStreamRedactor:
        """A cleaner for plain text that arrives in pieces and must be handed on as it comes."""
        return TextStreamRedactor(self._finder)

    def _redact_json_body(self, data: bytes, value: JSON, path: str) -> Redacted[bytes]:
        cleaned = redact_document(self._finder, value, path)
        if cleaned.log:
            return Redacted(json_bytes(cleaned.value), cleaned.log)
        rewritten = json_bytes(value)
        spans = self._finder.find_secrets(data) if has_repeated_names(data, rewritten) else []
        if any(data[item.start : item.end] not in rewritten for item in spans) and not self._finder.find_secrets(
            rewritten
        ):
            return Redacted(rewritten, [])  # A member that another of its name replaced held a secret.
        return Redacted(data, [])

    def _redact_wide_body(
        self, data: bytes, wide: WideText, media_type: str, path: str, depth: int
    ) -> Redacted[bytes]:
        """A body in UTF-16 or UTF-32: cleaned as its text, and encoded again in the same way."""
        text = encode(wide.text)
        cleaned = self._redact_narrow_body(text, media_type, path, depth)
        if cleaned.value == text:
            return Redacted(data, cleaned.log)
        return Redacted(wide.encode(decode(cleaned.value)), cleaned.log)

    def _redact_multipart(self, data: bytes, media_type: str, path: str, depth: int) -> Redacted[bytes]:
        """A multipart body: a part with a secret name as a whole, every other part by its own media type."""
        boundary = find_boundary(data, media_type)
        parts = find_parts(data, boundary) if boundary else []
        if not parts:
            return self._redact_text_body(data, path)
        border = self._redact_spans(boundary, self._find_key_spans(boundary), path)
        log: list[Redaction] = list(border.log)
        pieces: list[bytes] = []
        last = 0
        for part in parts:
            before, _, line_end = data[last : part.head[0]].rpartition(b"--" + boundary)
            preamble = self._redact_text_body(before, path)  # Between two parts, it is a line end.
            head = self._redact_part_head(data[slice(*part.head)], path)
            body = self._redact_part(part, data[slice(*part.body)], path, depth)
            log += (*preamble.log, *head.log, *body.log)
            pieces += (preamble.value, b"--", border.value, line_end, head.value)
            pieces += (data[part.head[1] : part.body[0]], body.value)
            last = part.body[1]
        return Redacted(b"".join([*pieces, data[last:]]) if log else data, log)

    def _find_key_spans(self, data: bytes) -> list[SecretSpan]:
        """The keys in a boundary; most are random, and some digits look like a card or a phone."""
        return [item for item in self._finder.find_secrets_in_line(data) if item.type not in CHANCE_TYPES]

    def _redact_part_head(self, head: bytes, path: str) -> Redacted[bytes]:
        """The head of a part: its names also as they are after decoding `%xx`."""
        encoded = [
            SecretSpan(start, end, spans[0].type)
            for start, end, word in find_encoded_words(head)
            if (spans := self._finder.find_secrets_in_line(word))
        ]
        continued = [
            SecretSpan(start, end, spans[0].type)
            for places in find_continued_values(head)
            if (spans := self._finder.find_secrets_in_line(b"".join(head[slice(*place)] for place in places)))
            for start, end in places
        ]
        spans = merge_spans([*encoded, *continued, *self._finder.find_secrets_in_line(head)])
        return self._redact_spans(head, spans, path)

    def _redact_part(self, part: Part, body: bytes, path: str, depth: int) -> Redacted[bytes]:
        decoded = decode_part(body, part.encoding)
        if decoded is None:
            return _withhold_body(body, path)
        content, encode_content = decoded
        if self._finder.is_secret_part(part.name):
            secret = content.decode("utf-8", "replace").strip()
            if self._finder.is_allowed(secret):
                return Redacted(body, [])
            marker = self._finder.marker_for(secret).encode()
            return Redacted(encode_content(marker), [Redaction(path, 0, "FIELD", secret)])
        cleaned = self._redact_body_once(content, part.media_type, path, depth + 1)
        return Redacted(encode_content(cleaned.value), cleaned.log) if cleaned.log else Redacted(body, [])

    def _redact_text_body(self, data: bytes, path: str) -> Redacted[bytes]:
        return self._redact_spans(data, self._finder.find_secrets_in_bytes(data), path)

    def _redact_spans(self, data: bytes, secrets: Sequence[SecretSpan], path: str) -> Redacted[bytes]:
        log = [
            Redaction(path, span.start, span.type, data[item.start : item.end].decode(errors="replace"))
            for span, item in zip(_spans(data, secrets, is_ascii=data.isascii()), secrets, strict=True)
        ]
        return Redacted(self._finder.replace_secrets(data, secrets) if secrets else data, log)


def _withhold_body(data: bytes, path: str) -> Redacted[bytes]:
    """In the place of a body that cannot be examined."""
    return Redacted(REDACTED.encode(), [Redaction(path, 0, "FIELD", digest_bytes(data))])


def is_redacted_by_type(media_type: str) -> bool:
    """Whether a body of this type is redacted as a form or as events, even if it is JSON."""
    kind = _base_media_type(media_type)
    return kind == FORM_TYPE or kind in EVENT_TYPES


def _begins_with_event(data: bytes) -> bool:
    return data.lstrip().startswith((b"data:", b"event:", b"id:"))


def _base_media_type(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _spans(data: bytes, secrets: Sequence[SecretSpan], *, is_ascii: bool) -> list[TextSpan]:
    """Bytes to code points, in one pass."""
    if is_ascii:
        return [TextSpan(*item) for item in secrets]
    spans, place, points = [], 0, 0
    for item in secrets:
        points += _count_characters(data[place : item.start])
        length = _count_characters(data[item.start : item.end])
        spans.append(TextSpan(points, points + length, item.type))
        place, points = item.end, points + length
    return spans


def _count_characters(data: bytes) -> int:
    return len(data.decode("utf-8", "replace")) if not data.isascii() else len(data)


def _single_edit(before: bytes, after: bytes) -> ByteEdit:
    """The shortest single edit that turns `before` into `after`."""
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return ByteEdit(start, len(before) - end, after[start : len(after) - end])
