"""Keys that were encoded once more: as base64 in either alphabet, or as hexadecimal digits.

In: a text in which the prefix of a key stands encoded. Out: the range of the encoded key alone. Never: decodes what
does not begin like a key of an issuer in PREFIXES: most base64 is images.

In base64 a prefix has three spellings, by how many bytes of its group of three precede it. The characters that it
shares with its neighbours are classes of 4 or 16 in the anchor. Anchors that begin anywhere make the scan over all
detectors slower, by 15 % for all prefixes: so only those in INNER_PREFIXES are looked for inside of encoded text, and
all others where it begins.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from string import ascii_letters, digits

from traceforge.redact import key_detectors, vendor_keys
from traceforge.redact.detector import EDGE, ByteRange, Detector, after_edge
from traceforge.redact.lazy_pattern import LazyPattern

INNER_PREFIXES = ("sk-",)  # also found in the middle of encoded text
PREFIXES = (
    "sk-", "sk_live_", "sk_test_", "rk_live_", "AIza", "AKIA", "ASIA", "ya29.", "GOCSPX-", "ghp_", "gho_", "ghu_",
    "ghs_", "ghr_", "github_pat_", "glpat-", "glrt-", "gldt-", "xoxb-", "xoxp-", "xapp-", "hf_", "gsk_", "xai-",
    "npm_", "pypi-AgE", "SG.", "tf_live_", "hvs.", "dop_v1_", "pcsk_", "nvapi-", "pplx-", "r8_", "tvly-", "lin_api_",
    "shpat_", "dckr_pat_", "figd_", "ATATT3", "ntn_", "whsec_",
)  # fmt: skip
ANCHOR_CHARACTERS = 5  # of an encoded prefix that the scan over all detectors looks for
DECODED_BYTES_MAX = 1_024  # Longer than any key that a prefix of these begins.

_MARKS = (*ascii_letters[26:], *ascii_letters[:26], *digits, "+\\-", "/_")  # The last two differ in URLs.
_BASE64 = LazyPattern(rb"(?:[A-Za-z0-9+/_-]++|\r?\n|\\r\\n|\\n)++")
_BREAKS = LazyPattern(rb"\r?\n|\\r\\n|\\n")
_PADDING = LazyPattern(rb"(?:=|%3[Dd]){0,2}")
_BASE64_BYTES = f"{ascii_letters}{digits}+/-_".encode()
_KEY_START = LazyPattern(rb"[A-Za-z0-9_.-]{12}")  # what every key begins with
_PROBE_CHARACTERS = 40  # of base64, that hold as much: most places have no key, and hostile text has many places
_TOKEN_BYTES = f"{ascii_letters}{digits}_.-".encode()
_HEX = LazyPattern(rb"(?:[0-9a-fA-F]{2})+")
_URL_ALPHABET = bytes.maketrans(b"-_", b"+/")
_DETECTORS = (*key_detectors.TOKENS, *vendor_keys.DETECTORS)
_ANCHORS = [LazyPattern(detector.whole_anchor) for detector in _DETECTORS]


def spell_base64(prefix: str, shift: int) -> str:
    """An expression for `prefix` in base64, in both alphabets, after `shift` bytes of its group of three."""
    bits = "?" * (8 * shift) + "".join(f"{byte:08b}" for byte in prefix.encode())
    bits += "?" * (-len(bits) % 6)
    places = range(6 * (8 * shift // 6), len(bits), 6)
    return "".join(_spell_character(bits[place : place + 6]) for place in places)


def _spell_character(bits: str) -> str:
    values = product(*("01" if bit == "?" else bit for bit in bits))
    options = "".join(_MARKS[int("".join(value), 2)] for value in values)
    return options if len(options) == 1 else f"[{options}]"


def _find_key_end(decoded: bytes, offset: int) -> int:
    """Where the key that begins at `offset` ends; 0 where none begins there."""
    for detector, anchor in zip(_DETECTORS, _ANCHORS, strict=True):
        for start in {max(0, offset - 1), max(0, offset - 2)}:
            match = anchor.match(decoded, start)
            place = detector.locate(decoded, start, match.end()) if match else None
            if place is not None and place[0] == offset:
                return place[1]
    return 0


def _base64_locator(shift: int, *, has_edge: bool = False) -> Callable[[bytes, int, int], ByteRange | None]:
    def locate(text: bytes, start: int, _: int) -> ByteRange | None:
        first, offset = (after_edge(text, start) if has_edge else start) - (8 * shift // 6), shift
        before = text[max(0, first - 4) : first]
        if len(before) == 4 and not before.strip(_BASE64_BYTES):
            first, offset = first - 4, offset + 3  # What precedes the key says whether one begins there.
        probe = _BASE64.match(text, first, first + _PROBE_CHARACTERS) if first >= 0 else None
        if probe is None or not _may_begin_key(_decode_run(probe), offset, is_inner=not has_edge):
            return None
        run = _BASE64.match(text, first, first + DECODED_BYTES_MAX * 2)
        assert run is not None
        decoded = _decode_run(run)
        end = _find_key_end(decoded, offset)
        if not end:
            return None
        places = _list_places(run)
        last = min(-(-end // 3) * 4, len(places))
        if len(places) - last < 4 and end == len(decoded):
            last = len(places)
        padding = _PADDING.match(text, places[last - 1] + 1)
        return places[offset // 3 * 4], padding.end() if padding else places[last - 1] + 1

    return locate


def _may_begin_key(decoded: bytes, offset: int, *, is_inner: bool) -> bool:
    """Whether a key may begin at `offset`; one of INNER_PREFIXES may not continue a word: `sk-` has `-` itself."""
    if _KEY_START.match(decoded, offset) is None:
        return False
    before = decoded[max(0, offset - 2) : offset]
    return not is_inner or before[-1:] not in _TOKEN_BYTES or not before or before[:1] == b"\\"


def _list_places(run: re.Match[bytes]) -> list[int]:
    """The positions in the text of the base64 characters: those of a run that are not a part of a line break."""
    places = list(range(run.start(), run.end()))
    for match in reversed(list(_BREAKS.finditer(run[0]))):
        del places[match.start() : match.end()]
    return places


def _decode_run(run: re.Match[bytes]) -> bytes:
    data = _BREAKS.sub(b"", run[0]).translate(_URL_ALPHABET)
    data = data[: len(data) - 1] if len(data) % 4 == 1 else data
    return base64.b64decode(data + b"=" * (-len(data) % 4))


def _locate_hex(text: bytes, start: int, _: int) -> ByteRange | None:
    first = after_edge(text, start)
    run = _HEX.match(text, first, first + DECODED_BYTES_MAX * 2)
    decoded = bytes.fromhex(run[0].decode()) if run else b""
    end = _find_key_end(decoded, 0) if _KEY_START.match(decoded) else 0
    return (first, first + 2 * end) if end else None


def _anchor(spell: Callable[[str], str], prefixes: Sequence[str] = PREFIXES) -> bytes:
    return "|".join(sorted({spell(prefix) for prefix in prefixes})).encode()


def _spell_start(prefix: str) -> str:
    """As much of a prefix in base64 as is looked for where encoded text begins."""
    return spell_base64(prefix[: ANCHOR_CHARACTERS * 6 // 8], 0)


def _spell_hex(prefix: str) -> str:
    return f"(?i:{prefix[: ANCHOR_CHARACTERS * 6 // 8].encode().hex()})"


DETECTORS = (
    Detector("API_KEY", _anchor(_spell_start), _base64_locator(0, has_edge=True), EDGE),
    Detector("API_KEY", _anchor(_spell_hex), _locate_hex, EDGE),
    *(
        Detector("API_KEY", _anchor(partial(spell_base64, shift=shift), INNER_PREFIXES), _base64_locator(shift))
        for shift in range(3)
    ),
)
