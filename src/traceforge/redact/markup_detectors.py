"""Secrets in XML and HTML, by the name of their element or attribute, and in lists of names and values.

In: text with markup, also escaped as in a JSON string or with `&lt;`. Out: the range of the value. Never: parses a
document: prompts and error pages contain markup, too, whole or cut off.
"""

from __future__ import annotations

import re

from traceforge.redact.detector import ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import (
    count_digits,
    is_common_word,
    is_opaque,
    is_password,
    is_placeholder,
    is_random,
)
from traceforge.redact.secret_names import is_secret_field_name

_WORD = rb"(?i:pass(?:w(?:or)?d|phrase|wd)?|passcode|pwd|secret|key|token|credentials?|auth(?:orization)?)"
_NAME = rb"[A-Za-z0-9_.:-]{0,40}" + _WORD + rb"[A-Za-z0-9_-]{0,12}"
_OPEN, _CLOSE = rb"(?:<|&lt;)", rb"(?:>|&gt;)"
_CDATA = rb"(?:<!\[CDATA\[)?"
_VALUE = rb"(?P<value>[^\x00<>&]{1,8192}(?:&(?!lt;|gt;)[^\x00<>&]{0,1024}){0,64})"
_ELEMENT = LazyPattern(
    _OPEN + rb"(?P<name>" + _NAME + rb")(?:\s[^\x00<>&]{0,300}?)?" + _CLOSE + rb"\s{0,16}"
    + _CDATA + rb"\s{0,16}" + _VALUE
    + rb"(?:\]\]>\s{0,16})?(?:(?:<|&lt;)\\?/|\Z)"
)  # fmt: skip
_PLIST = LazyPattern(
    _OPEN + rb"key" + _CLOSE + rb"\s{0,8}(?P<name>" + _NAME + rb")\s{0,8}" + _OPEN + rb"\\?/key" + _CLOSE
    + rb"(?:\s|\\[nrt]){0,64}" + _OPEN + rb"(?:string|data)" + _CLOSE + rb"\s{0,16}" + _VALUE
    + rb"(?:<|&lt;|\Z)"
)  # fmt: skip
_QUOTE = rb"\\{0,3}(?:[\"']|&quot;)"
_PAIR = LazyPattern(
    rb"(?i:name|key|id|type)\s{0,4}=\s{0,4}" + _QUOTE + rb"(?P<name>" + _NAME + rb")" + _QUOTE
    + rb"[^\x00<>]{0,200}?\s(?i:value|content)\s{0,4}=\s{0,4}" + _QUOTE + rb"(?P<value>[^\x00\"'<>&\\]{1,4096})"
)  # fmt: skip
_MARK = rb"\\{0,3}[\"']?"
_ENTRY = LazyPattern(
    rb"(?i:name|key)" + _MARK + rb"\s{0,4}:\s{0,4}" + _MARK + rb"(?P<name>" + _NAME + rb")" + _MARK
    + rb"(?:\s|\\n|,){1,24}" + _MARK + rb"(?i:value)" + _MARK + rb"\s{0,4}:\s{0,4}" + _MARK
    + rb"(?P<value>[^\x00\"'\s,}\\]{6,4096})"
)  # fmt: skip
_ATTRIBUTE = LazyPattern(
    rb"\s(?P<name>" + _NAME + rb")\s{0,4}=\s{0,4}" + _QUOTE + rb"(?P<value>[^\x00\"'<>&\\\s]{1,4096})"
)
_TAG_BYTES = 400  # How far before an attribute its tag may begin.


def _is_secret(name: bytes, value: bytes) -> bool:
    """Any value under a name that is wholly secret; under another that ends so, one that looks like a secret."""
    local_name = name.rpartition(b":")[2].rpartition(b".")[2].decode("latin-1")
    value = value.strip()
    if not value or is_placeholder(value) or value.count(b" ") > 4:
        return False
    if is_secret_field_name(local_name):
        return True
    folded = local_name.lower()
    if folded.endswith("pass"):
        return is_password(value) and not is_common_word(value) and count_digits(value) > 0
    if folded.endswith(("password", "passwd", "passphrase", "pwd", "secret")):
        return is_password(value) or (len(value) >= 6 and b" " not in value and not is_common_word(value))
    return is_random(value) if folded.endswith(("token", "apikey", "api-key", "api_key")) else is_opaque(value)


def _value_of(match: re.Match[bytes] | None) -> ByteRange | None:
    if match is None or not _is_secret(match["name"], match["value"]):
        return None
    return match.start("value"), match.start("value") + len(match["value"].rstrip())


def _element(text: bytes, start: int, _: int) -> ByteRange | None:
    """`<Password>…</Password>`, with attributes, a namespace or CDATA."""
    return _value_of(_ELEMENT.match(text, start))


def _plist(text: bytes, start: int, _: int) -> ByteRange | None:
    """`<key>Password</key><string>…</string>`, as in a property list."""
    return _value_of(_PLIST.match(text, start))


def _pair(text: bytes, start: int, _: int) -> ByteRange | None:
    """`<add key="ApiKey" value="…"/>`, `<param name="password" value="…">`."""
    return _value_of(_PAIR.match(text, start))


def _entry(text: bytes, start: int, _: int) -> ByteRange | None:
    """`- name: API_KEY` and `value: …` on the next line, as in the environment of a container; the same in JSON."""
    return _value_of(_ENTRY.match(text, start))


def _attribute(text: bytes, start: int, _: int) -> ByteRange | None:
    """`<login password="…">`: inside a tag, and not in other text."""
    tag = text[max(0, start - _TAG_BYTES) : start]
    if max(tag.rfind(b"<"), tag.rfind(b"&lt;")) <= max(tag.rfind(b">"), tag.rfind(b"&gt;")):
        return None
    return _value_of(_ATTRIBUTE.match(text, start))


# The scan over all detectors follows a name without counting: a count would be a state of its automaton for each byte
# of every word. The exact expressions above count.
_ANY_NAME = rb"[A-Za-z0-9_.:-]*" + _WORD + rb"[A-Za-z0-9_-]*"
_PAIR_NAME = rb"[A-Za-z0-9_.-]*(?i:key|token|secret|passw(?:or)?d|passphrase|pwd|auth|psk)"
DETECTORS = (
    Detector("FIELD", _OPEN + _ANY_NAME + rb"(?:\s[^\x00<>&]*)?" + _CLOSE + rb"\s{0,16}[^\x00\s]", _element),
    Detector("FIELD", _OPEN + rb"key" + _CLOSE + rb"\s{0,8}" + _ANY_NAME + rb"\s{0,8}" + _OPEN + rb"\\?/key", _plist),
    Detector("FIELD", rb"(?i:name|key|id|type)\s{0,4}=\s{0,4}" + _QUOTE + _ANY_NAME + _QUOTE, _pair),
    Detector(
        "FIELD",
        rb"(?i:name|key)[\\\"']*\s?:\s?[\\\"']*" + _PAIR_NAME + rb"[\\\"']*[\s,\\][\s,\\n\"']*(?i:value)",
        _entry,
    ),
    Detector("FIELD", rb"\s" + _ANY_NAME + rb"\s{0,4}=\s{0,4}" + _QUOTE + rb"[^\x00\"'<>&\\\s]", _attribute),
)
