"""Redact a live request the way its trace was redacted, so that both get the same key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from traceforge.canon import JSON, parse_exact_json
from traceforge.exchange import Headers, find_header
from traceforge.redact.redactions import Redaction
from traceforge.redact.redactor import Redactor, is_redacted_by_type
from traceforge.replay.fingerprints import HEADERS_PATH, URL_PATH, drop_credentials, is_compared_redaction
from traceforge.traces.body_reader import looks_like_another_body, redact_request


class RedactedHead(NamedTuple):
    """The URL and the compared headers of a live request; other headers are not passed to `redact_head`."""

    url: str
    headers: Headers
    media_type: str
    encodings: str
    redactions: list[Redaction]  # in the URL
    compared_redactions: list[Redaction]  # those of them that are part of the prompt
    is_redacted_as_json: bool  # whether a JSON body is redacted as JSON, and not as its media type says


class RequestRedactor:
    """Redacts live requests. Remembers texts, because an agent sends its whole conversation with every call."""

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = (redactor or Redactor()).with_memory()

    def with_values(self, redactions: Sequence[Redaction]) -> RequestRedactor:
        """The same redactor, which also finds these values; the same object where none of them is looked for."""
        redactor = self._redactor.with_values(redactions)
        return self if redactor is self._redactor else RequestRedactor(redactor)

    def redact_head(self, url: str, headers: Headers) -> RedactedHead:
        redacted_url = self._redactor.redact_url(url, URL_PATH)
        redacted_headers = self._redactor.redact_headers(headers, HEADERS_PATH)
        media_type, encodings = find_header(headers, "content-type"), find_header(headers, "content-encoding")
        return RedactedHead(
            redacted_url.value,
            drop_credentials(redacted_headers.value, ((item.path, item.type) for item in redacted_headers.log)),
            media_type,
            encodings,
            redacted_url.log,
            [
                redaction
                for redaction in (*redacted_url.log, *redacted_headers.log)
                if is_compared_redaction(redaction.path, redaction.type)
            ],
            not encodings and not is_redacted_by_type(media_type),
        )

    def redact_body(self, head: RedactedHead, body: bytes) -> tuple[JSON, list[Redaction]]:
        return redact_request(self._redactor, body, head.media_type, head.encodings)

    def redact_answer(self, answer: bytes) -> JSON:
        return self._redactor.redact_json(parse_exact_json(answer)).value

    def is_stored_as_text(self, body: JSON) -> bool:
        """Whether a JSON body is stored as its text, because a value would look like another body."""
        return looks_like_another_body(body)

    def find_header_redactions(self, headers: Headers) -> Sequence[Redaction]:
        """What is redacted in the headers. No key needs it: headers identify the caller."""
        return self._redactor.redact_headers(headers, HEADERS_PATH).log

    def redact_label(self, text: str) -> str:
        return self._redactor.redact_label(text)

    def is_secret_parameter(self, name: str) -> bool:
        return self._redactor.is_secret_parameter(name)
