"""API keys, tokens and private keys: secrets that are recognised by their own text.

Formats are the issuers' own, with their lengths where those are fixed: a detector that is right about the length
leaves look-alikes alone.
"""

from __future__ import annotations

import base64
import binascii
import re

from traceforge.redact.detector import EDGE, RUN_EDGE, ByteRange, Detector, after_edge, token_detector
from traceforge.redact.plausibility import count_digits, entropy, is_placeholder, longest_alphanumeric_run

PEM_BYTES_MAX = 65_536  # Sixteen times a 4096-bit RSA key. A block that goes on is cut there, and redacted so far.

_W = rb"[A-Za-z0-9_-]"
_END = rb"(?![A-Za-z0-9_])"


def _looks_generated(value: bytes) -> bool:
    """No placeholder, and more than a few different characters."""
    return not is_placeholder(value) and len(set(value)) >= 8


def _is_sk(value: bytes) -> bool:
    """`sk-` and a key, not a CSS class such as `sk-estimator-doc-link`."""
    body = value[3:]
    if not _looks_generated(value):
        return False
    upper = sum(65 <= byte <= 90 for byte in body)
    return longest_alphanumeric_run(body) >= 16 or (len(body) >= 20 and count_digits(body) + upper >= 5)


def _is_slack(value: bytes) -> bool:
    return count_digits(value) >= 6


def _is_aws_id(value: bytes) -> bool:
    return not is_placeholder(value)


def _is_uneven(value: bytes) -> bool:
    return _looks_generated(value) and entropy(value) >= 3.0


def _has_digit(value: bytes) -> bool:
    return count_digits(value[4:]) > 0


TOKENS = (
    token_detector("ANTHROPIC_KEY", rb"sk-ant-", _W + rb"{20,512}", _looks_generated),
    token_detector("OPENAI_KEY", rb"sk-", _W + rb"{16,512}", _is_sk, _W + rb"{16}"),
    token_detector("OPENAI_KEY", rb"sess-", rb"[A-Za-z0-9]{40}" + _END, _looks_generated),
    token_detector("GOOGLE_API_KEY", rb"AIza", rb"[A-Za-z0-9_-]{35,64}", _looks_generated, _W + rb"{8}"),
    token_detector("GOOGLE_API_KEY", rb"AQ\.Ab", _W + rb"{40,128}", _looks_generated),
    token_detector("GOOGLE_API_KEY", rb"ya29\.", rb"[A-Za-z0-9_.-]{20,2048}", _looks_generated),
    token_detector("GOOGLE_API_KEY", rb"GOCSPX-", _W + rb"{28}" + _END, _looks_generated),
    token_detector(
        "AWS", rb"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", rb"[A-Z0-9]{16}" + _END, _is_aws_id, rb"[A-Z0-9]{16}"
    ),
    token_detector("AWS", rb"ABSK", rb"[A-Za-z0-9+/]{109,269}={0,2}", _is_uneven, rb"[A-Za-z0-9+/]{16}"),
    token_detector("AWS", rb"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", rb"[A-Za-z0-9+/=]{0,8192}"),
    token_detector("AWS", rb"amzn\.mws\.", rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
    token_detector("AWS", rb"da2-", rb"[a-z0-9]{26}" + _END, _has_digit),
    token_detector("GITHUB_TOKEN", rb"gh[pousr]_", rb"[A-Za-z0-9]{36,255}", _looks_generated),
    token_detector("GITHUB_TOKEN", rb"ghs_", rb"[A-Za-z0-9_.-]{36,2048}", _looks_generated),
    token_detector("GITHUB_TOKEN", rb"github_pat_", rb"[A-Za-z0-9_]{36,255}", _looks_generated),
    token_detector(
        "GITLAB_TOKEN", rb"gl(?:pat|rt|dt)-", _W + rb"{20,300}\.[0-9a-z]{2}\.?[0-9A-Za-z]{7,16}" + _END, _is_uneven
    ),
    token_detector("GITLAB_TOKEN", rb"gl(?:pat|dt|ft|soat|rt|ffct|wt)-", _W + rb"{20,50}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"GR1348941", _W + rb"{20,50}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glcbt-", rb"(?:[0-9a-fA-F]{1,5}_)?" + _W + rb"{20,50}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glimt-", _W + rb"{25}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glptt-", _W + rb"{40}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glagent-", _W + rb"{50,1024}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"gloas-", _W + rb"{64}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"_gitlab_session=", rb"[0-9a-f]{32}" + _END),
    token_detector("SLACK", rb"xox[a-z](?:\.xox[a-z])?-", rb"[0-9A-Za-z-]{10,512}", _is_slack),
    token_detector("SLACK", rb"xapp-", rb"\d-[A-Za-z0-9]+-\d+-[A-Za-z0-9]{16,128}", _is_slack),
    token_detector(
        "SLACK", rb"(?:https?://)?hooks\.slack\.com/", rb"(?:services|workflows|triggers)/[A-Za-z0-9+/]{30,100}"
    ),
    token_detector("STRIPE", rb"[spr]k_(?:live|test|prod)_", rb"[A-Za-z0-9]{10,255}" + _END, _is_uneven),
    token_detector("STRIPE", rb"whsec_", rb"[A-Za-z0-9+/]{32,128}={0,2}", _looks_generated),
    token_detector("HUGGINGFACE", rb"hf_", rb"[A-Za-z0-9]{34,40}" + _END, _looks_generated, rb"[A-Za-z0-9]{16}"),
    token_detector("HUGGINGFACE", rb"api_org_", rb"[A-Za-z]{34}" + _END, _looks_generated, rb"[A-Za-z]{16}"),
    token_detector("GROQ", rb"gsk_", rb"[A-Za-z0-9]{40,64}" + _END, _looks_generated),
    token_detector("API_KEY", rb"xai-", rb"[A-Za-z0-9]{40,128}" + _END, _looks_generated),
    token_detector("API_KEY", rb"pplx-", rb"[A-Za-z0-9]{40,64}" + _END, _looks_generated),
    token_detector("API_KEY", rb"nvapi-", _W + rb"{40,128}", _looks_generated),
    token_detector("API_KEY", rb"r8_", rb"[A-Za-z0-9]{37}" + _END, _looks_generated, rb"[A-Za-z0-9]{16}"),
    token_detector("API_KEY", rb"lsv2_(?:pt|sk)_", rb"[0-9a-f]{32}_[0-9a-f]{10}" + _END),
    token_detector("API_KEY", rb"tvly-", _W + rb"{24,64}", _looks_generated),
    token_detector("API_KEY", rb"npm_", rb"[A-Za-z0-9]{36}" + _END, _looks_generated, rb"[A-Za-z0-9]{16}"),
    token_detector("API_KEY", rb"pypi-AgE", _W + rb"{50,512}", _looks_generated),
    token_detector(
        "API_KEY", rb"SG\.", _W + rb"{20,24}\." + _W + rb"{39,50}" + _END, _looks_generated, _W + rb"{16}"
    ),
    token_detector("API_KEY", rb"dapi", rb"[0-9a-f]{32}(?:-\d)?" + _END, _looks_generated, rb"[0-9a-f]{16}"),
)

_AZURE_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_AZURE_TAIL = re.compile(rb"JQQJ99[A-Za-z0-9]{26}" + _END)
_AZURE_SECRET = re.compile(rb"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}" + _END)
_AZURE_ACCOUNT = re.compile(rb"AccountKey=([A-Za-z0-9+/]{86}==)")


def _azure_service_key(text: bytes, start: int, _: int) -> ByteRange | None:
    """84 letters and digits with `JQQJ99` after the 52nd."""
    tail = _AZURE_TAIL.match(text, start)
    head = text[max(0, start - 52) : start]
    run = len(head) - len(head.rstrip(_AZURE_ALPHABET))
    return (start - 52, tail.end()) if tail and run == 52 else None


def _azure_client_secret(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _AZURE_SECRET.match(text, after_edge(text, start))
    return match.span() if match else None


def _azure_account_key(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _AZURE_ACCOUNT.match(text, start)
    return match.span(1) if match else None


_JWT = re.compile(
    rb"ey[IJ][A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{4,65536}(?:(?:\.[A-Za-z0-9_-]{1,65536}){1,3}|\.(?![A-Za-z0-9_-]))?"
)
_JWT_BASE64 = re.compile(rb"ZXlK[A-Za-z0-9+/_-]{40,65536}={0,2}")
_CLAIM = re.compile(rb'"(?:alg|typ|kid|enc|cty)"')


def _decode(value: bytes) -> bytes:
    """Base64 in either alphabet, as far as it goes; empty where it is none."""
    value = value.translate(bytes.maketrans(b"-_", b"+/"))
    try:
        return base64.b64decode(value[: len(value) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return b""


def _jwt(text: bytes, start: int, _: int) -> ByteRange | None:
    """Two parts or more, the first of which is the JSON header of a token."""
    match = _JWT.match(text, after_edge(text, start))
    if match is None:
        return None
    header = match[0].partition(b".")[0]
    return match.span() if _CLAIM.search(_decode(header + b"A" * (-len(header) % 4))) else None


def _jwt_base64(text: bytes, start: int, _: int) -> ByteRange | None:
    """A token that was encoded once more."""
    match = _JWT_BASE64.match(text, after_edge(text, start))
    return match.span() if match and b".ey" in _decode(match[0].rstrip(b"=")) else None


_PEM_BEGIN = re.compile(rb"-{4,5} ?BEGIN[ A-Z0-9]{0,24} PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_END = re.compile(rb"-{4,5} ?END[ A-Z0-9]{0,24} PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_BODY = re.compile(rb"(?:[A-Za-z0-9+/=\s\"'`,*#>|]|\\[nrt]|\+|-(?!----)|[:.()])*")
_PEM_BASE64 = re.compile(rb"LS0tLS1CRUdJTi[A-Za-z0-9+/\s]{20,65536}={0,2}")


def _pem(text: bytes, start: int, _: int) -> ByteRange | None:
    """A whole block, or, where its end was cut off, as far as its text goes; a first line alone holds no key."""
    begin = _PEM_BEGIN.match(text, start)
    if begin is None:
        return None
    limit = begin.end() + PEM_BYTES_MAX
    next_begin = text.find(b"---BEGIN", begin.end(), limit)
    limit = limit if next_begin < 0 else next_begin  # A block ends before the next begins.
    end = _PEM_END.search(text, begin.end(), limit)
    if end is not None:
        return start, end.end()
    body = _PEM_BODY.match(text, begin.end(), limit)
    return (start, body.end()) if body and longest_alphanumeric_run(body[0]) >= 16 else None


def _pem_base64(text: bytes, start: int, _: int) -> ByteRange | None:
    """A block that was encoded once more, as environment variables hold it."""
    match = _PEM_BASE64.match(text, after_edge(text, start))
    if match is None or b"PRIVATE KEY" not in _decode(b"".join(match[0].split())[:120]):
        return None
    return match.span()


BLOCKS = (
    Detector("AZURE", rb"JQQJ99[A-Z]", _azure_service_key),
    Detector("AZURE", RUN_EDGE + rb"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{16}", _azure_client_secret),
    Detector("AZURE", rb"AccountKey=[A-Za-z0-9+/]{16}", _azure_account_key),
    Detector("JWT", RUN_EDGE + rb"ey[IJ][A-Za-z0-9_-]{8}", _jwt),
    Detector("JWT", RUN_EDGE + rb"ZXlK[A-Za-z0-9+/]{16}", _jwt_base64),
    Detector("PRIVATE_KEY", rb"-{4,5} ?BEGIN[ A-Z0-9]{0,24} PRIVATE KEY", _pem),
    Detector("PRIVATE_KEY", EDGE + rb"LS0tLS1CRUdJTi[A-Za-z0-9+/]{16}", _pem_base64),
)
