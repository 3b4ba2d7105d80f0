"""Secrets that are recognised by the text around them: headers, URLs, curl, and members of JSON in a text.

Only a JSON member whose whole name is secret is redacted with any value; names beside values in free text are in
`assignment_detectors`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

from traceforge.redact.assignment_detectors import whole_value
from traceforge.redact.detector import EDGE, ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.ordinary_values import is_joined_words
from traceforge.redact.plausibility import count_digits, is_placeholder, is_random
from traceforge.redact.redactions import MARKER_PATTERN
from traceforge.redact.secret_names import PARAMETER_NAMES

_MARKER = LazyPattern(MARKER_PATTERN.encode())


def _header_value(value: bytes) -> bool:
    return len(value) >= 8 and count_digits(value) >= 1 and not is_placeholder(value)


_AUTHORIZATION = LazyPattern(
    rb"(?i:authorization)\\{0,3}[\"']?[ \t]{0,4}[:=,]?[ \t]{0,4}\\{0,3}[\"']?"
    rb"(?:(?P<aws>AWS4-HMAC-SHA256 [^\x00\"'\n\\]{20,2048})"
    rb"|(?:[A-Za-z][A-Za-z-]{2,15}[ \t]{1,4})?(?P<value>[^\x00\s\"',;\\]{8,1024}))"
)


def _authorization(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _AUTHORIZATION.match(text, start)
    if match is None:
        return None
    if match["aws"]:
        return match.span("aws")
    is_secret = _header_value(match["value"]) or _is_basic(match["value"])
    return whole_value(text, *match.span("value")) if is_secret else None


_BEARER = LazyPattern(rb"(?i:bearer)(?:[ \t]{1,4}|%20)\\{0,3}[\"']?([A-Za-z0-9._~+/=-]{12,1024})")
_BASIC = LazyPattern(rb"(?i:basic)(?:[ \t]{1,4}|%20)([A-Za-z0-9+/]{8,2048}={0,2})")


def _bearer(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _BEARER.search(text, start)
    if match is None or is_placeholder(match[1]):
        return None
    return whole_value(text, *match.span(1)) if count_digits(match[1]) >= 2 or is_random(match[1]) else None


def _is_basic(value: bytes) -> bool:
    """Whether this is Base64 of `user:password`."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return False
    return bool(colon) and password.isascii() and (user + password).decode("latin-1").isprintable()


def _basic(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _BASIC.search(text, start)
    return match.span(1) if match and _is_basic(match[1]) else None


_USER_OPTION = rb"(?:-[A-Za-z]{0,5}[uU]|-a|--user|--proxy-user)"
_CURL_USER = LazyPattern(
    rb"[ \t\n,\[]\\{0,3}[\"']?(?:-u\\?|" + _USER_OPTION + rb"\\?(?:\\{0,3}[\"'],|[ =])\s{0,4})"
    rb"(?:\\{0,3}(?P<quote>[\"'])(?P<quoted>[^\x00\"':\n]{0,128}(?:(?P=quote):(?P=quote)|:)[^\x00\"'\n]{0,4096})"
    rb"(?P=quote)"
    rb"|(?P<bare>[^\x00\s\"':$]{0,128}:(?:'[^\x00'\n]{1,4096}'|\"[^\x00\"\n]{1,4096}\"|[^\x00\s\"']{0,4096})))"
)
_PASSWORD_BYTES_MIN = 4
_PLACEHOLDER_WORD = LazyPattern(
    rb"(?i)(?:user|name|pass|word|token|secret|api|key|your|test|admin|root|foo|bar|[-_ ])+\Z"
)


def _curl_user(text: bytes, start: int, _: int) -> ByteRange | None:
    """`curl -u user:password`, `http -a user:password`: the options mean this only to curl and HTTPie."""
    match = _CURL_USER.match(text, start)
    program = b"http" if match and match[0][1:3] == b"-a" else b"curl"
    if match is None or program not in text[max(0, start - 512) : start]:
        return None
    group = "quoted" if match["quoted"] else "bare"
    user, _colon, password = (part.strip(b"\"'[]{}<>") for part in match[group].partition(b":"))
    # `-u token:` and `-u token:x` have no password: the user is the secret, unless it is a name.
    secret = password if len(password) >= _PASSWORD_BYTES_MIN else user
    if not password and group == "bare" and not is_random(user):
        return None
    if (
        is_placeholder(match[group])
        or is_placeholder(secret)
        or _PLACEHOLDER_WORD.match(secret)
        or len(secret) < _PASSWORD_BYTES_MIN
    ):
        return None
    return match.span(group)


_CURL_HEADER = LazyPattern(
    rb"(?:-H|--header)[ =]{0,3}[\"'][A-Za-z-]{0,32}[ ]{0,2}:[ ]{0,5}(?P<value>[A-Za-z0-9_=~@.+/-]{8,1024})"
)


def _curl_header(text: bytes, start: int, _: int) -> ByteRange | None:
    """`-H "X-Auth-Key: …"`: the value of a header with a secret name."""
    match = _CURL_HEADER.match(text, start)
    return whole_value(text, *match.span("value")) if match and _header_value(match["value"]) else None


_CURL_OPTION = LazyPattern(
    rb"CURLOPT_[A-Z0-9_]{0,16}(?:PASSWORD|USERPWD|PASSWD|BEARER)\s{0,4},\s{0,4}(?P<quote>[\"'])"
    rb"(?P<value>[^\x00\"'\n]{4,256})(?P=quote)"
)


def _curl_option(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _CURL_OPTION.match(text, start)
    return match.span("value") if match and not is_placeholder(match["value"]) else None


# A password with `#`, `?` or `@` in it should be escaped, and often is not; a port is none: `://h:80?to=a@b`.
_USERINFO = LazyPattern(
    rb"://([^\x00\s/?#@\"'<>\\:]{0,256}:(?![0-9]{1,5}[?#])[^\x00\s/\"'<>\\]{1,1024})@[A-Za-z0-9\[]"
)


def _userinfo(text: bytes, start: int, _: int) -> ByteRange | None:
    """User and password in `scheme://user:password@host`."""
    match = _USERINFO.match(text, start)
    if match is None or is_placeholder(match[1]) or b"{" in match[1]:
        return None
    return match.span(1)


_LOGIN_CODE_BYTES = 24  # A shorter `code` of a URL is a status, a country or a coupon.
_PARAMETER = LazyPattern(rb"[?&](?P<name>[^\x00=&\s]{1,40})=(?P<value>[^\x00&\s#\"'<>\\)\]]{1,1024})")


def _parameter(text: bytes, start: int, _: int) -> ByteRange | None:
    """A secret parameter of a URL in a text: `?key=…`."""
    match = _PARAMETER.match(text, start)
    if match is None or is_placeholder(match["value"]) or b"{" in match["value"]:
        return None
    if match["name"].lower() == b"key" and is_joined_words(match["value"]):
        return None  # What is sorted or looked up by: no vendor's key is of words.
    if match["name"].lower() == b"code" and len(match["value"]) < _LOGIN_CODE_BYTES:
        return None
    is_secret = len(match["value"]) >= 8 and (count_digits(match["value"]) > 0 or len(match["value"]) >= 20)
    return whole_value(text, *match.span("value")) if is_secret else None


_MEMBER_NAME = LazyPattern(rb"\\{0,7}[\"'][^\"'\\]{1,200}\\{0,7}[\"']")
_STRING_START = LazyPattern(rb"[ \t]{0,8}:\s{0,8}(\\{0,7})([\"'])")
_NUMBER = LazyPattern(rb"[ \t]{0,8}:\s{0,8}(-?[0-9][0-9.eE+-]{0,40})")


def _member(text: bytes, start: int, _: int) -> ByteRange | None:
    """The value of a JSON member whose whole name is secret, at any depth of escaping; empty stays empty."""
    name = _MEMBER_NAME.match(text, start)
    if name is None:
        return None
    end = name.end()
    match = _STRING_START.match(text, end)
    if match is not None and match[1] + match[2] != _quote_before(text, end):
        return None
    if match is None:
        number = _NUMBER.match(text, end)
        return number.span(1) if number else None
    first = match.end()
    closing = _closing_quote(text, first, match[1], match[2])
    return (first, closing) if closing > first and not _MARKER.fullmatch(text[first:closing]) else None


def _quote_before(text: bytes, end: int) -> bytes:
    """The quote after a name, with its backslashes. A value with other quotes belongs to something else."""
    return text[len(text[max(0, end - 9) : end - 1].rstrip(b"\\")) + max(0, end - 9) : end]


def _closing_quote(text: bytes, first: int, escape: bytes, quote: bytes) -> int:
    """Where the string ends: at the next quote that is escaped as often as the first was."""
    place = text.find(escape + quote, first)
    while place >= 0:
        run = _backslashes(text, first, place)
        if (run == 0) if escape else (run % 2 == 0):
            return place
        place = text.find(escape + quote, place + 1)
    return len(text)


def _backslashes(text: bytes, first: int, place: int) -> int:
    """How many backslashes directly precede `place`."""
    count = 0
    while place - count > first and text[place - count - 1] == 92:
        count += 1
    return count


def member_detector(names: Iterable[str]) -> Detector:
    """Finds members by name in texts that hold JSON or a Python dict, such as the arguments of a tool call."""
    # With the beginning of the value: in a JSON Schema, such names stand before an object and in lists.
    value = rb"[ \t]*:\s*(?:\\{0,7}[\"']|-?[0-9])"
    return Detector("FIELD", rb"\\{0,7}[\"'](?:" + _any_of(names) + rb")\\{0,7}[\"']" + value, _member)


def _any_of(names: Iterable[str]) -> bytes:
    """An expression for any of the names, as they are folded: `api_key` is also `apiKey` and `API-Key`."""
    words = {
        "[-_]?".join(re.escape(word) for word in re.split(r"[-_]|(?<=[a-z0-9])(?=[A-Z])", name) if word).lower()
        for name in names
    }
    return rb"(?i:" + "|".join(sorted(words - {""})).encode() + rb")"


DETECTORS = (
    Detector("BASIC_AUTH", rb"://[^\x00\s/?#@\"'<>\\:]*:[^\x00\s/\"'<>\\]*@", _userinfo),
    Detector("PARAMETER", rb"[?&]code=[A-Za-z0-9_./+~%=-]{12}", _parameter),
    Detector("PARAMETER", rb"[?&]" + _any_of(PARAMETER_NAMES) + rb"=[^\x00&\s#\"'<>]{8}", _parameter),
    Detector(
        "BEARER",
        rb"(?i:authorization)\\{0,3}[\"']?[ \t]{0,4}[:=,]?[ \t]{0,4}\\{0,3}[\"']?[A-Za-z0-9]",
        _authorization,
    ),
    Detector("BEARER", rb"(?i:bearer)(?:[ \t]{1,4}|%20)\\{0,3}[\"']?[A-Za-z0-9._~+/=-]{12}", _bearer, EDGE),
    Detector("BEARER", rb"(?i:basic)(?:[ \t]{1,4}|%20)[A-Za-z0-9+/]{8}", _basic, EDGE),
    Detector("BASIC_AUTH", rb"[ \t\n](?:-u[A-Za-z0-9._@+-]+:|" + _USER_OPTION + rb"\\?[ =])", _curl_user),
    Detector("BASIC_AUTH", rb"[ ,\[]\\{0,3}[\"']" + _USER_OPTION + rb"\\{0,3}[\"'],", _curl_user),
    Detector(
        "BEARER",
        rb"(?:-H|--header)[ =]{0,3}[\"'](?i:[a-z-]{0,24}(?:key|token|secret|auth))[ ]{0,2}:[ ]{0,5}[A-Za-z0-9]",
        _curl_header,
    ),
    Detector("BASIC_AUTH", rb"CURLOPT_[A-Z0-9_]{0,16}(?:PASSWORD|USERPWD|PASSWD|BEARER)", _curl_option),
)
