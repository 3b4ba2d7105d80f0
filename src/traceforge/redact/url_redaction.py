"""Redacting URLs and forms.

In: a URL or a form-encoded body. Out: the same, with `[REDACTED]` for user and password, for an account of AWS in the
name of a resource, for parameters with a secret name, and for secrets that a detector finds after decoding `%xx`.
Never: re-encodes a part that it does not redact.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

from traceforge.redact.json_redaction import redact_line
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.redactions import REDACTED, Redacted, Redaction
from traceforge.redact.secret_finder import SecretFinder, decode, encode

ACCOUNT = "ACCOUNT"
_USERINFO = LazyPattern(r"(?<=://)[^/?#@\s]+(?=@)")
# The account in the name of a resource of AWS, which Bedrock takes for a model; the part before it is kept.
_AWS_ACCOUNT = LazyPattern(
    r"(?i)(\barn(?::|%3A)aws[a-z-]*(?::|%3A)[a-z0-9-]+(?::|%3A)[a-z0-9-]*(?::|%3A))([0-9]{12})(?=:|%3A)"
)
_HEAD = LazyPattern(r"[^?#]*")
_PAIR = LazyPattern(r"(?P<name>[^=&;?#]+)=(?P<value>[^&;#]*)")
_BRACKETED = LazyPattern(r"\[([^\[\]]+)\](?:\[\])?\Z")  # `user[password]`, `user[codes][]`
_WORD_OR_PAIR = LazyPattern(r"(?P<name>[^=&;?#]+)(?:=(?P<value>[^&;#]*))?")


def list_accounts(text: str) -> list[str]:
    """The accounts of AWS that a text names with a resource, such as an error that says who may not use what."""
    return [match[2] for match in _AWS_ACCOUNT.finditer(text)]


def redact_url(finder: SecretFinder, url: str, path: str = "$") -> Redacted[str]:
    """Clean a URL; `path` is what it is called in the log."""
    log: list[Redaction] = []
    match = _HEAD.match(url)
    assert match is not None
    head = _USERINFO.sub(lambda match: _log_redaction(log, path, match.start(), "BASIC_AUTH", match[0]), match[0])
    head = _AWS_ACCOUNT.sub(
        lambda match: match[1] + _log_redaction(log, path, match.start(2), ACCOUNT, match[2]), head
    )
    head = "/".join(_redact_part(finder, part, unquote(part), log, path) for part in head.split("/"))
    head = _redact_pairs(finder, head, log, path, _PAIR)
    tail = _redact_pairs(finder, url[match.end() :], log, path, _WORD_OR_PAIR)  # A fragment holds pairs, too.
    return Redacted(_redact_text(finder, head + tail, log, path), log)


def redact_form(finder: SecretFinder, form: str, path: str = "$") -> Redacted[str]:
    log: list[Redaction] = []
    return Redacted(_redact_text(finder, _redact_pairs(finder, form, log, path, _WORD_OR_PAIR), log, path), log)


def _redact_pairs(finder: SecretFinder, text: str, log: list[Redaction], path: str, pattern: LazyPattern[str]) -> str:
    def clean(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if value is None:
            return redact_part(name)
        plain = unquote_plus(value)
        if finder.is_secret_parameter(_innermost_name(unquote_plus(name))) and not finder.is_allowed(plain):
            return f"{name}={_log_redaction(log, path, match.start('value'), 'PARAMETER', plain)}"
        return f"{redact_part(name)}={redact_part(value)}"

    def redact_part(part: str) -> str:
        if "%" in part or "+" in part or finder.holds_joined_key(part):
            return _redact_part(finder, part, unquote_plus(part), log, path)
        return part  # It is scanned with the whole.

    return pattern.sub(clean, text)


def _innermost_name(name: str) -> str:
    """What is called so in the end: `password` of `user[password]`, as frameworks write the fields of a form."""
    match = _BRACKETED.search(name)
    return match[1] if match else name


def _redact_part(finder: SecretFinder, part: str, plain: str, log: list[Redaction], path: str) -> str:
    """Redact a step of the path, a name or a value; a secret that only decoding `%xx` shows redacts all of it."""
    if part == plain:
        change = redact_line(finder, part)
        log += [Redaction(path, *secret) for secret in change.secrets]
        return str(change.value)
    hits = finder.find_secrets_in_line(encode(plain))
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
