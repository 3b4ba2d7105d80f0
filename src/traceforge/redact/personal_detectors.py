"""Personal data: e-mail addresses, US phone numbers, Social Security numbers, payment cards.

Bare digits are a phone or Social Security number only if the words before them say so. Grouped digits in a valid
range, and numbers with a valid check digit, need no such words. Digits inside an id, a date or a decimal never match.
"""

from __future__ import annotations

from traceforge.redact.detector import ByteRange, Detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import has_valid_check_digit, is_card, is_ssn

LOCAL_BYTES_MAX = 64  # RFC 5321: the maximum length of the part before the @.
CONTEXT_BYTES = 40  # How far before a number its name may stand: "my credit card number is ".

_LOCAL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.'%+_-"
_AT = LazyPattern(rb"@|%40")
_LETTER = rb"[A-Za-z0-9]|[\xc3-\xd3][\x80-\xbf]"  # ASCII, and the letters of Europe; no word of Chinese is an address
_DOMAIN = LazyPattern(
    rb"(?:(?:" + _LETTER + rb")(?:" + _LETTER + rb"|-){0,62}\.){1,8}"
    rb"(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,24})(?![A-Za-z0-9_])"
)
_RETINA = LazyPattern(rb"[0-9]x\.(?:png|jpe?g|gif|svg|webp)\Z")


def _email(text: bytes, start: int, end: int) -> ByteRange | None:
    at = _AT.search(text, start, end)
    domain = _DOMAIN.match(text, at.end()) if at else None
    if at is None or domain is None or _RETINA.match(domain[0]):
        return None
    first = _local_start(text, at.start())
    local = text[first : at.start()]
    if not local or local[-1:] in b".'%" or (local == b"git" and text[domain.end() : domain.end() + 1] == b":"):
        return None
    return first, domain.end()


def _local_start(text: bytes, at: int) -> int:
    """Where the part before the @ begins."""
    floor = max(0, at - LOCAL_BYTES_MAX)
    before = text[floor:at]
    first = floor + len(before.rstrip(_LOCAL))
    if first > floor and text[first - 1] >= 0x80:
        letters = before.decode("utf-8", "ignore")
        count = len(letters)
        while count and (letters[count - 1].encode() in _LOCAL or "À" <= letters[count - 1] < "\u0500"):
            count -= 1
        first = at - len(letters[count:].encode())
    first += _escaped(text, first, at)
    while first < at and text[first] in b".'%":
        first += 1
    return first


def _escaped(text: bytes, first: int, at: int) -> int:
    """`\\nann@example.org` in the text of a JSON document: the n belongs to the line break."""
    if first == 0 or text[first - 1 : first] != b"\\" or first + 1 >= at:
        return 0
    return 5 if text[first : first + 1] == b"u" else int(text[first : first + 1] in b"nrtbf")


# Before a number: no letter, digit, underscore or decimal point; a letter and a point is the end of "No.".
NUMBER_EDGE = rb"(?:^|[^0-9A-Za-z_.]|[A-Za-z]\.|\\[nrtbf])"
_NUMBER_EDGE = LazyPattern(rb"\\[nrtbf]|[A-Za-z]\.|[^0-9A-Za-z_.(+]|")
_INSIDE_BEFORE = LazyPattern(rb"[A-Za-z0-9_][-.]\Z")
_INSIDE_AFTER = LazyPattern(rb"[A-Za-z0-9_]|[-.,][0-9]|-[A-Za-z0-9]{1,8}-")


def _digits_at(text: bytes, start: int) -> int:
    """The position of the first digit, after the edge that the anchor includes."""
    while not 48 <= text[start] <= 57:
        start += 1
    return start


def _phone_at(text: bytes, start: int) -> int:
    """The position of the first digit, `(` or `+`, after the edge."""
    edge = None if text[start : start + 1].isdigit() else _NUMBER_EDGE.match(text, start)
    return edge.end() if edge else start


def _is_separate_number(text: bytes, start: int, end: int) -> bool:
    """Whether the digits are not a part of a longer number, id or date."""
    before = text[max(0, start - 2) : start]
    return not (_INSIDE_BEFORE.search(before) or _INSIDE_AFTER.match(text, end))


_CARD = LazyPattern(
    rb"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{3})?(?![0-9])"
    rb"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5}(?![0-9])|[0-9]{12,19}(?![0-9])"
)
_CARD_WORDS = LazyPattern(rb"(?i)card|credit|debit|\bcc\b|\bpan\b|visa|maestro|amex")


# Names that say of a number that it is something else: `"seed": …`, `call_id=…`, `"createdAt": …`.
_NO_CARD_NAME = LazyPattern(
    rb"(?:(?:^|[^A-Za-z0-9])(?:[A-Za-z0-9_-]{0,24}[_-])?(?i:seed|ids?|time|timestamp|created|updated|at|duration|ns|ms|nonce)"
    rb"|[a-z](?:Ids?|At|Ms|Ns|Time|Seed))\\{0,3}[\"']?\s{0,8}[:=]\s{0,8}\\{0,3}[\"']?\Z"
)


def _card(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _CARD.match(text, _digits_at(text, start))
    if match is None or not _is_separate_number(text, *match.span()):
        return None
    number = match[0].translate(None, b" -")
    if not has_valid_check_digit(number):  # Nine of ten numbers end here, before the expressions for what precedes.
        return None
    before = text[max(0, match.start() - CONTEXT_BYTES) : match.start()]
    if len(number) == len(match[0]) and _NO_CARD_NAME.search(before):
        return None
    return match.span() if is_card(number, is_named=_CARD_WORDS.search(before) is not None) else None


_SSN = LazyPattern(rb"([0-9]{3})([- ])([0-9]{2})\2([0-9]{4})(?![0-9])")
_SSN_BARE = LazyPattern(rb"[0-9]{9}(?![0-9])")


def _ssn(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _SSN.match(text, _digits_at(text, start))
    if match is None or not is_ssn(match[1] + match[3] + match[4]) or not _is_separate_number(text, *match.span()):
        return None
    return match.span()


def _ssn_named(text: bytes, _: int, end: int) -> ByteRange | None:
    match = _SSN_BARE.match(text, end - 9)
    return match.span() if match and is_ssn(match[0]) and _is_separate_number(text, *match.span()) else None


# The country code or none, an area code of 2–9, and groups that only North America writes.
_PHONE = LazyPattern(
    rb"(?:(?:\+|00)1[-. ]?\(?[0-9]|1[-. ]\(?[2-9]|\(?[2-9])[0-9]{2}(?:\)[-. ]?|([-. ]))[0-9]{3}(?(1)\1|[-. ])[0-9]{4}"
    rb"(?:,? ?(?:x|ext\.?|extension) ?[0-9]{1,6})?(?![0-9])"
)
_PHONE_E164 = LazyPattern(rb"\+1[2-9][0-9]{9}(?![0-9A-Za-z_])")
_PHONE_BARE = LazyPattern(rb"(?:1?[2-9][0-9]{2}[0-9]{7})(?![0-9])")
_SPACED = LazyPattern(rb"[2-9][0-9]{2} [2-9][0-9]{2} [0-9]{4}")
_PHONE_AFTER = LazyPattern(rb"[A-Za-z0-9_]|[-.][0-9]")
_PHONE_BEFORE = LazyPattern(rb"(?:[A-Za-z0-9_][-.]|[0-9]|[A-Za-z0-9]\+)\Z")
_SPACED_BEFORE = LazyPattern(rb"[0-9] \Z")


def _phone(text: bytes, start: int, _: int) -> ByteRange | None:
    """Three, three and four digits, grouped; by spaces alone only if the groups are those of a real exchange."""
    first = _phone_at(text, start)
    match = _PHONE.match(text, first)
    if text[first] == 40 and (match is None or b")" not in match[0]):  # a bracket around the number, not in it
        first += 1
        match = _PHONE.match(text, first)
    if match is None or _PHONE_AFTER.match(text, match.end()):
        return None
    before = text[max(0, first - 2) : first]
    if _PHONE_BEFORE.search(before):
        return None
    is_spaced = match[1] == b" " and match[0][:1] not in b"+(0"
    if is_spaced and (_SPACED_BEFORE.search(before) or not _SPACED.search(match[0])):
        return None
    return match.span()


def _phone_e164(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _PHONE_E164.match(text, _digits_at(text, start) - 1)
    return match.span() if match else None


def _phone_named(text: bytes, _: int, end: int) -> ByteRange | None:
    match = _PHONE_BARE.match(text, end - 10)
    return match.span() if match and _is_separate_number(text, *match.span()) else None


def _phone_labelled(text: bytes, start: int, _: int) -> ByteRange | None:
    first = _digits_at(text, start)
    match = _PHONE_BARE.match(text, first)
    if match is None or _INSIDE_BEFORE.search(text[max(0, first - 2) : first]):
        return None
    return match.span()


_WORD_EMAIL = rb"A-Za-z0-9\x80-\xd3"
_PHONE_WORDS = rb"(?i:phone|mobile|cell|fax|call|tel|sms|whatsapp)"

DETECTORS = (
    Detector(
        "EMAIL", rb"[" + _WORD_EMAIL + rb"._%+-](?:@|%40)[" + _WORD_EMAIL + rb"-]+\.[" + _WORD_EMAIL + rb"]", _email
    ),
    Detector("CREDIT_CARD", rb"[0-9]{12}", _card, NUMBER_EDGE),
    Detector(
        "CREDIT_CARD",
        rb"[1-68][0-9]{3}[ -](?:[0-9]{4}[ -][0-9]{4}[ -][0-9]|[0-9]{6}[ -][0-9]{4})",
        _card,
        NUMBER_EDGE,
    ),
    Detector("US_SSN", rb"[0-8][0-9]{2}[- ][0-9]{2}[- ][0-9]{4}", _ssn, NUMBER_EDGE),
    Detector("US_SSN", rb"(?i:ssn|social security)[^\x000-9]{0,24}[0-9]{9}", _ssn_named),
    Detector(
        "PHONE",
        rb"(?:(?:\+|00)1[-. ]?\(?[0-9]|1[-. ]\(?[2-9]|\(?[2-9])[0-9]{2}(?:\)[-. ]?|[-. ])[0-9]{3}[-. ][0-9]{4}",
        _phone,
        NUMBER_EDGE,
    ),
    Detector("PHONE", rb"\+1[2-9][0-9]{9}", _phone_e164, NUMBER_EDGE),
    Detector(
        "PHONE",
        _PHONE_WORDS + rb"[^\x000-9A-Za-z]{0,4}(?:[A-Za-z]{1,8}[^\x000-9A-Za-z]{1,4}){0,3}[2-9][0-9]{9}",
        _phone_named,
    ),
    Detector("PHONE", rb"[2-9][0-9]{9}[ -](?i:fax|mobile|office|cell|home|work)", _phone_labelled, NUMBER_EDGE),
)
