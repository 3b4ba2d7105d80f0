"""Secrets that the shape of a record gives away: a line of `.pgpass`, a connection, a seed phrase, a signature.

In: text around a label or a mark of the record. Out: the range of the secret. Never: takes a label alone as proof:
the rest of the record must be there, and the value may be no placeholder.
"""

from __future__ import annotations

from traceforge.redact.assignment_detectors import whole_value
from traceforge.redact.detector import ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import is_common_word, is_password, is_placeholder, is_random

_LINE_BYTES_MAX = 160  # How far around `pass=` the other fields of a connection are looked for.
_PASS_NAME = rb"(?:^|[\s;\"'?&])(?i:pass(?:w(?:or)?d)?|pwd)=[\"']?"
_PASS = LazyPattern(_PASS_NAME + rb"(?P<value>[^\x00\s\"'`,;<>(){}\[\]&|\\]{6,256})")
_ACCOUNT_FIELD = LazyPattern(
    rb"(?i)(?<![a-z0-9])(?:user(?:[ _]?(?:id|name))?|uid|login|server|host|data source)[ ]?="
)


def _connection_pass(text: bytes, start: int, _: int) -> ByteRange | None:
    """`Uid=app;Pass=…;`, `host=db user=app pass=…`, `?user=app&password=…`: beside a user or a host, in one line."""
    match = _PASS.match(text, start)
    if match is None or is_placeholder(match["value"]) or is_common_word(match["value"]):
        return None
    before = text[max(0, start - _LINE_BYTES_MAX) : start].replace(b"\0", b"\n").rpartition(b"\n")[2]
    after = text[match.end() : match.end() + _LINE_BYTES_MAX].replace(b"\0", b"\n").partition(b"\n")[0]
    if not _ACCOUNT_FIELD.search(before) and not _ACCOUNT_FIELD.search(after):
        return None
    is_joined = (before + match[0][:1]).rstrip()[-1:] in (b";", b"&", b"?")  # There, any word may be a password.
    return match.span("value") if is_joined or is_password(match["value"]) else None


_PGPASS_HOST = LazyPattern(
    rb"(?:^|[\n\x00\"'`])[ \t]{0,8}(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|[/*][A-Za-z0-9/._-]*)\Z"
)
_PGPASS = LazyPattern(
    rb":(?:543[0-9]|6432|\*):[^\x00\s:]{1,63}:[^\x00\s:]{1,63}:(?P<value>(?:[^\x00\s:\\]|\\.){4,256})(?=[\s\x00\"'`]|\Z)"
)
_HOST_BYTES_MAX = 255


def _pgpass(text: bytes, start: int, _: int) -> ByteRange | None:
    """`db.example.com:5432:app:ann:…`, a line of `.pgpass`; for any port, the host is any or has a full stop."""
    match = _PGPASS.match(text, start)
    if match is None or is_placeholder(match["value"]) or is_common_word(match["value"]):
        return None
    line = _PGPASS_HOST.search(text[max(0, start - _HOST_BYTES_MAX) : start])
    if line is None or (match[0][1:2] == b"*" and line["host"] != b"*" and b"." not in line["host"]):
        return None
    return match.span("value")


_SEED_LABEL = rb"(?i:mnemonic|(?:seed|recovery|backup|secret)[ _-]?(?:phrase|words))"
_SEED_SIGN = rb"(?i:[ _-]phrase)?[\"'`*]{0,3}[ \t]{0,4}(?:[:=]|(?i:is|are))[\s\"'`*:\[]{0,8}"
_SEED_WORD = rb"(?:[0-9]{1,2}[.):][ ]?)?[\"']?[a-z]{3,8}"
_SEED = LazyPattern(
    _SEED_LABEL
    + _SEED_SIGN
    + rb"(?P<words>"
    + _SEED_WORD
    + rb"(?:[\"']?[\s,]{1,4}"
    + _SEED_WORD
    + rb"){11,23})(?![a-z])"
)
_LETTERS = LazyPattern(rb"[a-z]+")
# Words of nearly every sentence that no list of seed words has.
_SENTENCE_WORDS = frozenset(
    b"the and you your for are not from its has was but our were have which these those into".split()
)


def _seed_phrase(text: bytes, start: int, _: int) -> ByteRange | None:
    """`seed phrase: …` and 12 to 24 words of three to eight letters, numbered or not: all of a wallet."""
    match = _SEED.match(text, start)
    return match.span("words") if match and _SENTENCE_WORDS.isdisjoint(_LETTERS.findall(match["words"])) else None


_SIGNATURE_NAME = rb"(?i:x-[a-z0-9-]{0,24}signature)(?:-[0-9]{1,3})?[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"']?"
_SIGNATURE = LazyPattern(
    _SIGNATURE_NAME + rb"(?:(?:sha[0-9]{1,3}|v[0-9])=)?(?P<value>[A-Za-z0-9+/_-]{20,1024}={0,2})"
)


def _signature(text: bytes, start: int, _: int) -> ByteRange | None:
    """`X-Hub-Signature-256: sha256=…`, `X-Amz-Signature=…`: with it, the signed request can be sent again."""
    match = _SIGNATURE.match(text, start)
    is_secret = match is not None and is_random(match["value"][:200])
    return whole_value(text, *match.span("value")) if match and is_secret else None


DETECTORS = (
    Detector("SECRET", _PASS_NAME + rb"[^\x00\s\"'`,;<>(){}\[\]&|\\]", _connection_pass),
    Detector("SECRET", rb":(?:543[0-9]|6432|\*):[^\x00\s:]+:[^\x00\s:]+:[^\x00\s:]", _pgpass),
    Detector("SECRET", _SEED_LABEL, _seed_phrase),
    Detector("SECRET", rb"(?i:x-[a-z0-9-]*signature)[0-9-]*[\"']?[ \t]*[:=,]", _signature),
)
