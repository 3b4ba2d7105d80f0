"""The keys that a vendor marks with a prefix, found by the table of prefix, alphabet and length.

In: nothing. Out: detectors, one for each edge that a key may have. Never: takes a prefix alone as proof: a key of any
row needs a whole prefix at an edge, its length, and text that was generated.
"""

from __future__ import annotations

import re
from itertools import pairwise
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

from traceforge.redact.detector import EDGE, RUN_EDGE, ByteRange, Detector, after_edge, is_inside_base64
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import (
    count_case_jumps,
    count_digits,
    entropy,
    is_placeholder,
    longest_alphanumeric_run,
)
from traceforge.redact.vendor_key_table import ALPHABETS, VENDOR_KEYS, VendorKey

_OPEN_ALPHABETS = frozenset(
    {"url", "dots", "uuid", "serial", "colons", "plus", "slashes"}
)  # They hold `-` or `.`, so a key of them starts once in a run.
_ANCHOR_BYTES = 10  # of the key after its prefix, that the scan over all detectors looks at
_OPEN_ANCHOR_BYTES = 6  # the same for an open alphabet, whose prefixes start few runs; with 5, `patterns` is one
_BASE64 = "[A-Za-z0-9+/=]"  # without what stands for its marks in a URL: the scan needs the first characters alone
_INDEX_BYTES = 2  # of a prefix: no prefix is shorter
_LONG_PREFIX_BYTES = 4  # of a prefix that hardly begins another word
_KINDS = bytes.maketrans(f"{ascii_lowercase}{ascii_uppercase}{digits}".encode(), b"a" * 26 + b"A" * 26 + b"0" * 10)


# A key in the manner of many vendors: a short name, the environment or the kind of key, and random text.
_MIDDLE = rb"[-_](?:live|prod|sandbox|sk|pat|tkn|apikey|api[-_]key|secret|private|token)[-_]"
_MANNER = LazyPattern(
    rb"(?P<name>[A-Za-z][A-Za-z0-9]{1,11}(?:[-_][A-Za-z0-9]{2,8})?)" + _MIDDLE + rb"[A-Za-z0-9_-]{20,200}"
)
_NAME_BYTES = 22  # one more than the longest name
_PROVIDER_ID_WORD = rb"resp|msg|call|chatcmpl|toolu|file|run|thread|asst|batch|gen|item|rs|fc|ws|next|page"
_PROVIDER_ID = LazyPattern(rb"(?:" + _PROVIDER_ID_WORD + rb")(?:[-_]|\Z)")
# Words that begin ids and names of files, of model providers and others.
_ID_WORD = (
    rb"cmpl|srvtoolu|tooluse|tool|step|evt|event|ev|org|proj|project|user|usr|acct|account|sess|session|conv"
    rb"|conversation|trace|span|req|request|response|message|embd|modr|ftjob|ft|vs|vsfs|ig|mcp[a-z]*|ctc|cntr|container|cfile"
    rb"|skill|upload|part|chunk|image|img|video|audio|doc|document|data|hash|md5|commit|rev|build|tmp|temp|cache|job"
    rb"|task|order|cus|customer|sub|subscription|price|prod|product|in|inv|invoice|ch|pi|pm|seti|cs|txn|card|src|ba"
    rb"|re|node|pod|key|ref|etag|blob|object|obj|asset|media|test|model|version|ver|snapshot|snap|dataset|deploy"
    rb"|deployment|dpl|instance|cluster|group|team|workspace|wrkspc|env|eval|evalrun|grader|prompt|pmpt|rsn|think|reasoning"
    rb"|content|output|input|function|func|search|web|code|computer|annotation|citation|fp|lc|ls|nonce|state|url|boundary"
    rb"|formboundary|webkitformboundary|slide|figure|table|section|block|cell|row|col|line"
    rb"|drive|gdrive|folder|sheet|spreadsheet|playlist|channel|youtube|clip|track|album|photo"
)


def is_key_text(value: bytes) -> bool:
    """Whether what follows a prefix was generated: several digits among letters, and no placeholder."""
    if is_placeholder(value) or len(set(value)) < 8:
        return False
    return count_digits(value) >= 2 or (len(value) >= 32 and _has_both_cases(value))


def _is_key(value: bytes, prefix: bytes) -> bool:
    """The same for a whole key: behind a long prefix, a digit or both cases in a long run are enough."""
    if is_key_text(value):
        return True
    body = value[len(prefix) :]
    if len(prefix) < _LONG_PREFIX_BYTES or is_placeholder(value) or len(set(body)) < 8:
        return False
    return longest_alphanumeric_run(body) >= 12 and (count_digits(body) > 0 or _has_both_cases(body))


def _has_both_cases(value: bytes) -> bool:
    return value != value.lower() and value != value.upper()


def _expression(row: VendorKey, prefix: str) -> str:
    alphabet = ALPHABETS[row.alphabet]
    # The last character is no separator, so that a full stop after the key is not a part of it.
    last = "[A-Za-z0-9_=-]" if row.alphabet in _OPEN_ALPHABETS else alphabet
    body = f"{alphabet}{{{row.shortest - 1},{row.longest - 1}}}{last}"
    return re.escape(prefix) + body + r"(?!_{0,2}[A-Za-z0-9])"


def _anchor(rows: list[tuple[VendorKey, str]]) -> str:
    """All prefixes. What follows them is written once for each alphabet: the scan would have a copy for each row."""
    prefixes: dict[str, set[str]] = {}
    for row, prefix in rows:
        looked_at = _OPEN_ANCHOR_BYTES if row.alphabet in _OPEN_ALPHABETS else _ANCHOR_BYTES
        alphabet = _BASE64 if row.alphabet == "base64" else ALPHABETS[row.alphabet]
        suffix = f"{alphabet}{{{min(row.shortest, looked_at)}}}"
        prefixes.setdefault(suffix, set()).add(re.escape(prefix))
    return "|".join(f"(?:{'|'.join(sorted(names))}){suffix}" for suffix, names in prefixes.items())


def _table_detector(edge: bytes, rows: list[tuple[VendorKey, str]]) -> Detector:
    """One detector for many kinds of key: the scan looks for all prefixes at once, the exact check for one."""
    exact: dict[bytes, list[tuple[bytes, LazyPattern[bytes]]]] = {}  # by the first characters of the prefix
    for row, prefix in sorted(rows, key=lambda item: -len(item[1])):  # The longer first: `sk_car_` before `sk_`.
        pattern = LazyPattern(_expression(row, prefix).encode())
        exact.setdefault(prefix[:_INDEX_BYTES].encode(), []).append((prefix.encode(), pattern))

    def locate(text: bytes, start: int, _: int) -> ByteRange | None:
        first = after_edge(text, start)
        for prefix, pattern in exact.get(text[first : first + _INDEX_BYTES], ()):
            match = pattern.match(text, first) if text.startswith(prefix, first) else None
            if match is not None and _is_key(match[0], prefix):
                return None if is_inside_base64(text, first) else match.span()
        return None

    return Detector("API_KEY", _anchor(rows).encode(), locate, edge)


def _manner(text: bytes, start: int, _: int) -> ByteRange | None:
    """`acme_live_9f86d081…`: a key in the manner of many vendors."""
    before = text[max(0, start - _NAME_BYTES) : start]
    first = start - len(before) + len(before.rstrip(b"-_0123456789" + ascii_letters.encode()))
    if 0 < first == start - _NAME_BYTES:
        return None  # The run goes on before: base64.
    match = _MANNER.match(text, first)
    if match is None or match.end("name") != start or _PROVIDER_ID.match(match["name"]):
        return None
    value = match[0][start - first :]
    is_random = longest_alphanumeric_run(value) >= 20 and count_digits(value) >= 3 and is_key_text(value)
    return match.span() if is_random else None


# A key of a vendor that is not in the table: a word, a mark, and random text of both cases with digits. It stands in
# a text, after a space or a sign. The whole value of a JSON member may be an id: only the member's name could tell.
_BEFORE_UNKNOWN = rb"(?:[\s=(>|]|[=(][ \t]?[\"']|[\s(]`)"
_UNKNOWN = LazyPattern(
    _BEFORE_UNKNOWN + rb"(?P<key>[A-Za-z][A-Za-z0-9]{1,11}(?:[-_][A-Za-z0-9]{1,10}){0,2}[-_]"
    rb"(?P<random>[A-Za-z0-9]{20,128})(?:[-_][A-Za-z0-9_-]{1,128})?)(?![A-Za-z0-9_/+=:@-]|\.[A-Za-z0-9])"
)
# The same where `-` and `_` divide the random text, or a full stop precedes it: it must be random from end to end.
_DIVIDED = LazyPattern(
    _BEFORE_UNKNOWN + rb"(?P<key>[A-Za-z][A-Za-z0-9]{1,11}[-_.](?P<random>[A-Za-z0-9_-]{24,256}))"
    rb"(?![A-Za-z0-9_/+=:@(-]|\.[A-Za-z0-9])"
)
_NOT_A_VENDOR = LazyPattern(
    rb"(?i)(?:%b|%b|[a-z]{0,3}sha[0-9]{0,3}|[a-z]*id|[a-z]*_id)(?:[-_0-9]|\Z)" % (_PROVIDER_ID_WORD, _ID_WORD)
)


def _unknown(text: bytes, start: int, _: int) -> ByteRange | None:
    """`use acme_9fK2…`: a key of any vendor, in a text."""
    match = _UNKNOWN.match(text, start)
    is_key = match is not None and _is_mixed(match["random"])
    if not is_key:
        match = _DIVIDED.match(text, start)
        is_key = match is not None and _is_scrambled(match["random"])
    return match.span("key") if match and is_key and not _NOT_A_VENDOR.match(match["key"]) else None


def _is_mixed(value: bytes) -> bool:
    """Whether it can hardly be anything but random: digits and letters of both cases, in no order.

    Every id of Anthropic begins with `01`.
    """
    digit_count = count_digits(value)
    upper = len(value) - len(value.translate(None, ascii_letters[26:].encode()))
    is_even = digit_count >= 3 and upper >= 4 and len(value) - digit_count - upper >= 4
    return is_even and value[:2] != b"01" and entropy(value) >= 3.8 and not is_placeholder(value)


def _is_scrambled(value: bytes) -> bool:
    """Whether digits and both cases change places as often as in random text, and more often than in joined words.

    In random letters and digits, 62 of 100 neighbours are of different kinds.
    """
    kinds = value.translate(_KINDS, b"-_")
    changes = sum(first != second for first, second in pairwise(kinds))
    has_jumps = count_case_jumps(value) >= max(3, len(value) // 10)
    return has_jumps and changes * 2 >= len(kinds) and _is_mixed(value)


def _split_rows() -> tuple[list[tuple[VendorKey, str]], list[tuple[VendorKey, str]]]:
    every = [(row, prefix) for row in VENDOR_KEYS for prefix in row.prefixes.split()]
    return (
        [item for item in every if item[0].alphabet not in _OPEN_ALPHABETS],
        [item for item in every if item[0].alphabet in _OPEN_ALPHABETS],
    )


_CLOSED, _OPEN = _split_rows()
_MANNER_DETECTOR = Detector("API_KEY", _MIDDLE + rb"[A-Za-z0-9_-]{20}", _manner)
# After a full stop the random text is longer: `response.function_call_arguments`, in many events of OpenAI, is none.
_UNKNOWN_DETECTOR = Detector(
    "API_KEY", _BEFORE_UNKNOWN + rb"[A-Za-z][A-Za-z0-9]*(?:[-_]|\.[A-Za-z0-9_-]{4})[A-Za-z0-9_-]{20}", _unknown
)
DETECTORS = (_table_detector(EDGE, _CLOSED), _table_detector(RUN_EDGE, _OPEN), _MANNER_DETECTOR, _UNKNOWN_DETECTOR)
