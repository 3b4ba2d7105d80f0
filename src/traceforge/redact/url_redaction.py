"""Redacting URLs and forms.

In: a URL or a form-encoded body. Out: the same, with `[REDACTED]` for user and password, for parameters with a secret
name, and for secrets that a detector finds after decoding `%xx`. Never: re-encodes a part that it does not redact.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.redactions import REDACTED, Redacted, Redaction
from traceforge.redact.secret_finder import SecretFinder, decode, encode

_USERINFO = LazyPattern(r"(?<=://)[^/?#@\s]+(?=@)")
_PAIR = LazyPattern(r"(?P<name>[^=&;?#]+)=(?P<value>[^&;#]*)")


def redact_url(finder: SecretFinder, url: str, path: str = "$") -> Redacted[str]:
    """Clean a URL; `path` is what it is called in the log."""
    log: list[Redaction] = []
    head, mark, query = url.partition("?")
    head = _USERINFO.sub(lambda match: _log_redaction(log, path, match.start(), "BASIC_AUTH", match[0]), head)
    head = "/".join(_redact_path_part(finder, part, log, path) for part in head.split("/"))
    if not mark:
        head = _redact_pairs(finder, head, log, path)  # A fragment holds pairs, too.
        return Redacted(_redact_text(finder, head, log, path), log)
    return Redacted(_redact_text(finder, head + mark + _redact_pairs(finder, query, log, path), log, path), log)


def redact_form(finder: SecretFinder, form: str, path: str = "$") -> Redacted[str]:
    log: list[Redaction] = []
    return Redacted(_redact_text(finder, _redact_pairs(finder, form, log, path), log, path), log)


def _redact_pairs(finder: SecretFinder, text: str, log: list[Redaction], path: str) -> str:
    def clean(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        plain = unquote_plus(value)
        start = match.start("value")
        if finder.is_secret_parameter(unquote_plus(name)) and not finder.is_allowed(plain):
            return f"{name}={_log_redaction(log, path, start, 'PARAMETER', plain)}"
        hits = finder.find_secrets(encode(plain)) if value != plain else []
        return f"{name}={_log_redaction(log, path, start, hits[0].type, plain)}" if hits else match[0]

    return _PAIR.sub(clean, text)


def _redact_path_part(finder: SecretFinder, part: str, log: list[Redaction], path: str) -> str:
    """Redact one part of the path; a secret that is found after decoding `%xx` redacts the whole part."""
    if "%" not in part:
        return part
    plain = unquote(part)
    hits = finder.find_secrets(encode(plain))
    return _log_redaction(log, path, 0, hits[0].type, plain) if hits else part


def _redact_text(finder: SecretFinder, text: str, log: list[Redaction], path: str) -> str:
    data = encode(text)
    spans = finder.find_secrets(data)
    for item in spans:
        _log_redaction(log, path, len(decode(data[: item.start])), item.type, decode(data[item.start : item.end]))
    return decode(finder.replace_secrets(data, spans)) if spans else text


def _log_redaction(log: list[Redaction], path: str, start: int, kind: str, secret: str) -> str:
    log.append(Redaction(path, start, kind, secret))
    return REDACTED
