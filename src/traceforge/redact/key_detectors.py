"""API keys, tokens and private keys: secrets that are recognised by their own text.

Formats are the issuers' own, with their lengths where those are fixed: a detector that is right about the length
leaves look-alikes alone.
"""

from __future__ import annotations

import base64
import binascii

from traceforge.redact.detector import EDGE, RUN_EDGE, ByteRange, Detector, after_edge, mark_detector, token_detector
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import count_digits, entropy, is_placeholder, longest_alphanumeric_run

PEM_BYTES_MAX = 65_536  # Sixteen times a 4096-bit RSA key. A block that goes on is cut there, and redacted so far.

_W = rb"[A-Za-z0-9_-]"
# What divides the parts of a URL, also where JSON, a URL or a form holds it.
_SLASH = rb"(?:\\{0,3}/|%(?:25)?2[Ff])"
_HTTP = rb"(?:https?(?::|%(?:25)?3[Aa])" + _SLASH + _SLASH + rb")?"
_PATH = rb"(?:[A-Za-z0-9+]|" + _SLASH + rb")"
_BASE64 = rb"(?:[A-Za-z0-9+/]|%2[BbFf])"
# Without the dots after a part of a key: `ya29.a0…...`.
_DOTTED = rb"(?=(?:[A-Za-z0-9_-]|\.(?!\.)){20})(?:[A-Za-z0-9_-]{1,2048}+|\.(?!\.)){1,8}+"
_END = rb"(?![A-Za-z0-9])"
_RUN_END = rb"(?![A-Za-z0-9_])"  # of an alphabet with `_`: what goes on is longer than any key


def _pad(value: bytes) -> bytes:
    return value + b"A" * (-len(value) % 4)


def _decode(value: bytes) -> bytes:
    """Base64 in either alphabet, as far as it goes; empty where it is none."""
    value = value.translate(bytes.maketrans(b"-_", b"+/"))
    try:
        return base64.b64decode(value[: len(value) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return b""


def _looks_generated(value: bytes) -> bool:
    """More than a few different characters, and no placeholder, which takes longer to see."""
    return len(set(value)) >= 8 and not is_placeholder(value)


def _is_sk(value: bytes) -> bool:
    """`sk-` and a key, not a CSS class such as `sk-estimator-doc-link`."""
    body = value[3:]
    if not _looks_generated(value):
        return False
    upper = sum(65 <= byte <= 90 for byte in body)
    return longest_alphanumeric_run(body) >= 16 or (len(body) >= 20 and count_digits(body) + upper >= 5)


def _is_slack(value: bytes) -> bool:
    """Many digits, or random letters and digits of both cases."""
    digits = count_digits(value)
    return digits >= 6 or (digits >= 2 and value[5:] not in (value[5:].lower(), value[5:].upper()))


def _is_aws_id(value: bytes) -> bool:
    return not is_placeholder(value)


def _is_uneven(value: bytes) -> bool:
    return _looks_generated(value) and entropy(value) >= 3.0


def _is_discord(value: bytes) -> bool:
    """The first part is the user's number in base64."""
    return _decode(_pad(value.partition(b".")[0])).isdigit()


def _is_legacy_vault(value: bytes) -> bool:
    """`s.` and 24 random letters and digits, not an attribute of a variable called `s`."""
    body = value[2:]
    return count_digits(body) >= 2 and body != body.lower() and body != body.upper()


def _has_digit(value: bytes) -> bool:
    return count_digits(value[4:]) > 0


TOKENS = (
    token_detector("ANTHROPIC_KEY", rb"sk-ant-", _W + rb"{20,512}", _looks_generated),
    token_detector("OPENAI_KEY", rb"sk-", _W + rb"{16,512}", _is_sk, _W + rb"{16}"),
    token_detector("OPENAI_KEY", rb"sess-", rb"[A-Za-z0-9]{40}" + _END, _looks_generated),
    token_detector("GOOGLE_API_KEY", rb"AIza", rb"[A-Za-z0-9_-]{35,64}", _looks_generated, _W + rb"{8}"),
    token_detector("GOOGLE_API_KEY", rb"AQ\.Ab", _W + rb"{40,128}", _looks_generated),
    token_detector("GOOGLE_API_KEY", rb"ya29\.", _DOTTED, _looks_generated),
    token_detector("GOOGLE_API_KEY", rb"GOCSPX-", _W + rb"{28}" + _END, _looks_generated),
    token_detector(
        "AWS",
        rb"(?:A(?:KI|SI|BI|GP|ID|IP|NP|NV|PK|RO|SC)A|ACCA|A3T[A-Z0-9])",
        rb"[A-Z0-9]{16}" + _END,
        _is_aws_id,
        rb"[A-Z0-9]{16}",
    ),
    token_detector("AWS", rb"ABSK", rb"[A-Za-z0-9+/]{109,269}={0,2}", _is_uneven, rb"[A-Za-z0-9+/]{8}"),
    # `BedrockAPIKey-` in base64.
    token_detector("AWS", rb"ABSKQmVkcm9ja0FQSUtleS", _BASE64 + rb"{24,512}={0,2}"),
    token_detector("AWS", rb"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", _BASE64 + rb"{0,8192}={0,2}"),
    token_detector(
        "AWS", rb"bedrock-api-key-", _BASE64 + rb"{40,8192}={0,2}", _looks_generated, rb"[A-Za-z0-9+/]{8}"
    ),
    token_detector("AWS", rb"amzn\.mws\.", rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
    token_detector("AWS", rb"da2-", rb"[a-z0-9]{26}" + _END, _has_digit),
    token_detector("GITHUB_TOKEN", rb"gh[pousr]_", rb"[A-Za-z0-9]{36,255}", _looks_generated),
    token_detector("GITHUB_TOKEN", rb"ghs_", rb"[A-Za-z0-9_.-]{36,2048}", _looks_generated, edge=RUN_EDGE),
    token_detector("GITHUB_TOKEN", rb"github_pat_", rb"[A-Za-z0-9_]{36,255}", _looks_generated),
    token_detector(
        "GITLAB_TOKEN", rb"gl(?:pat|rt|dt)-", _W + rb"{20,300}\.[0-9a-z]{2}\.?[0-9A-Za-z]{7,16}" + _END, _is_uneven
    ),
    token_detector("GITLAB_TOKEN", rb"gl(?:pat|dt|ft|soat|rtr?|ffct|wt)-", _W + rb"{20,50}" + _RUN_END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"GR1348941", _W + rb"{20,50}" + _RUN_END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glcbt-", rb"(?:[0-9a-fA-F]{1,5}_)?" + _W + rb"{20,50}" + _RUN_END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glimt-", _W + rb"{25}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glptt-", _W + rb"{40}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"glagent-", _W + rb"{50,1024}" + _RUN_END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"gloas-", _W + rb"{64}" + _END, _is_uneven),
    token_detector("GITLAB_TOKEN", rb"gitlab_session(?:=|%3D)", rb"[0-9a-z]{32}" + _END),
    token_detector("SLACK", rb"xox[abce-z](?:\.xox[a-z])?-", rb"[0-9A-Za-z-]{10,512}", _is_slack),
    token_detector("SLACK", rb"xwfp-", rb"[0-9A-Za-z-]{20,512}", _is_slack),
    token_detector("SLACK", rb"xoxd-", rb"[0-9A-Za-z%+/=_-]{20,512}", _is_slack),
    token_detector("SLACK", rb"xapp-", rb"\d-[A-Za-z0-9]+-\d+-[A-Za-z0-9]{3,128}", _is_slack),
    token_detector(
        "API_KEY",
        _HTTP + rb"hooks\.zapier\.com" + _SLASH + rb"hooks" + _SLASH + rb"catch" + _SLASH,
        _PATH + rb"{12,100}",
    ),
    token_detector(
        "SLACK",
        _HTTP + rb"hooks\.slack(?:-gov)?\.com" + _SLASH,
        rb"(?:services|workflows|triggers)" + _SLASH + _PATH + rb"{30,100}",
    ),
    token_detector("STRIPE", rb"[spre]k_(?:live|test|prod)_", rb"[A-Za-z0-9]{10,255}" + _END, _is_uneven),
    token_detector("STRIPE", rb"whsec_", rb"[A-Za-z0-9+/]{32,128}={0,2}", _looks_generated),
    token_detector("HUGGINGFACE", rb"hf_", rb"[A-Za-z0-9]{34,40}" + _END, _looks_generated, rb"[A-Za-z0-9]{8}"),
    token_detector("HUGGINGFACE", rb"hf_(?:jwt|oauth)_", _DOTTED, _looks_generated, edge=RUN_EDGE),
    token_detector("HUGGINGFACE", rb"api_org_", rb"[A-Za-z]{34}" + _END, _looks_generated, rb"[A-Za-z]{8}"),
    token_detector("GROQ", rb"gsk_", rb"[A-Za-z0-9]{40,64}" + _END, _looks_generated),
    token_detector("API_KEY", rb"xai-", rb"[A-Za-z0-9]{40,128}" + _END, _looks_generated),
    token_detector("API_KEY", rb"pk_[0-9]{5,9}_", rb"[A-Z0-9]{24,36}" + _END, None, rb"[A-Z0-9]{8}"),
    token_detector("API_KEY", rb"[sb]\.", rb"[A-Za-z0-9]{24,28}" + _END, _is_legacy_vault, rb"[A-Za-z0-9]{24}"),
    token_detector(
        "API_KEY",
        _HTTP + rb"discord(?:app)?\.com" + _SLASH + rb"api" + _SLASH,
        rb"(?:v[0-9]{1,2}" + _SLASH + rb")?webhooks" + _SLASH + rb"[0-9]{17,20}" + _SLASH + _W + rb"{60,80}",
    ),
    token_detector("API_KEY", rb"pplx-", rb"[A-Za-z0-9]{40,64}" + _END, _looks_generated),
    token_detector("API_KEY", rb"nvapi-", _W + rb"{40,128}", _looks_generated),
    token_detector("API_KEY", rb"r8_", rb"[A-Za-z0-9]{37}" + _END, _looks_generated, rb"[A-Za-z0-9]{8}"),
    token_detector("API_KEY", rb"lsv2_(?:pt|sk)_", rb"[0-9a-fA-F]{32}_[0-9a-fA-F]{10}" + _END),
    token_detector("API_KEY", rb"tvly-", _W + rb"{24,64}", _looks_generated),
    token_detector("API_KEY", rb"npm_", rb"[A-Za-z0-9]{36}" + _END, _looks_generated, rb"[A-Za-z0-9]{8}"),
    token_detector("API_KEY", rb"pypi-AgE", _W + rb"{50,512}", _looks_generated),
    token_detector(
        "API_KEY", rb"SG\.", _W + rb"{20,24}\." + _W + rb"{39,50}" + _RUN_END, _looks_generated, _W + rb"{8}"
    ),
    # Personal access tokens of Jira and Confluence: a number and a colon in base64, before random bytes.
    token_detector(
        "API_KEY", rb"(?:[MNO][DTjz][A-Zc-k][w-z0-5]){4}O", rb"[A-Za-z0-9+/]{27}" + _END, _looks_generated
    ),
    token_detector("API_KEY", rb"6L[A-Za-z0-9_-]{6}AAAAA", _W + rb"{27}" + _END, edge=RUN_EDGE),
    token_detector("API_KEY", rb"A{20,22}", rb"[A-Za-z0-9%]{70,110}" + _END, _is_uneven),
    token_detector("API_KEY", rb"dapi", rb"[0-9a-f]{32}(?:-\d)?" + _END, _looks_generated, rb"[0-9a-f]{8}"),
)

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = b"0123456789"

# Discord, Telegram, Terraform, Mailchimp, Zhipu and Ollama, New Relic, Asana, fal, RapidAPI, Firebase, Dropbox,
# MaxMind, Salesforce, and webhooks of Teams.
MARKED = (
    mark_detector(
        "API_KEY",
        rb"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{12}",
        _LETTERS + _DIGITS + b"_-",
        28,
        rb"[MNO]" + _W + rb"{22,28}\." + _W + rb"{6}\." + _W + rb"{27,45}" + _RUN_END,
        _is_discord,
    ),
    mark_detector("API_KEY", rb":AA[A-Za-z0-9_-]{12}", _DIGITS, 10, rb"[0-9]{8,10}:AA" + _W + rb"{30,36}" + _RUN_END),
    mark_detector(
        "API_KEY",
        rb"\.atlasv1\.",
        _LETTERS + _DIGITS,
        14,
        rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,80}" + _END,
    ),
    mark_detector(
        "API_KEY", rb"[0-9A-Za-z]-us[0-9]", _LETTERS + _DIGITS, 32, rb"[0-9A-Za-z]{32}-us[0-9]{1,2}" + _END
    ),
    mark_detector(
        "API_KEY",
        rb"[0-9a-f]{4}\.[A-Za-z0-9]{16}",  # Four before the dot: embeddings are full of numbers with long fractions.
        b"abcdef" + _DIGITS,
        28,
        rb"[0-9a-f]{32}\.[A-Za-z0-9]{16,24}" + _END,
        _is_uneven,
    ),
    mark_detector("API_KEY", rb"NRAL", _LETTERS + _DIGITS, 36, rb"[0-9A-Za-z]{32,36}NRAL" + _END, _is_uneven),
    mark_detector("API_KEY", rb"-NRMA", _LETTERS + _DIGITS, 42, rb"[0-9A-Za-z]{40,42}-NRMA" + _END, _is_uneven),
    mark_detector(
        "API_KEY",
        rb":[0-9a-f]{32}",
        _DIGITS + b"/",
        36,
        rb"[0-9]/[0-9]{12,18}(?:/[0-9]{12,18})?:[0-9a-f]{32}" + _END,
    ),
    mark_detector(
        "API_KEY",
        rb":[0-9a-f]{32}",
        b"abcdef-" + _DIGITS,
        36,
        rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}:[0-9a-f]{32}" + _END,
    ),
    mark_detector(
        "API_KEY",
        rb"msh[0-9a-f]{15}p1",
        b"abcdef" + _DIGITS,
        10,
        rb"[0-9a-f]{10}msh[0-9a-f]{15}p1[0-9a-f]{5,6}jsn[0-9a-f]{12}" + _END,
    ),
    mark_detector(
        "API_KEY", rb":APA91b", _LETTERS + _DIGITS + b"_-", 22, rb"[A-Za-z0-9_-]{7,22}:APA91b" + _W + rb"{100,220}"
    ),
    mark_detector(
        "API_KEY",
        rb"[a-z0-9]A{10}[B-Za-z0-9_-]{4}",  # without what precedes, silence in MP3 as base64 has a hundred of these
        b"abcdefghijklmnopqrstuvwxyz" + _DIGITS,
        10,
        rb"[a-zA-Z0-9]{11}A{10}" + _W + rb"{43}" + _END,
    ),
    mark_detector("API_KEY", rb"_mmk", _LETTERS + _DIGITS + b"_", 36, rb"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk" + _END),
    mark_detector(
        "API_KEY",
        rb"![A-Za-z0-9_.]{12}",
        _LETTERS + _DIGITS,
        18,
        rb"00D[A-Za-z0-9]{12,15}![A-Za-z0-9_.]{80,140}",
    ),
    mark_detector(
        "API_KEY",
        rb"\.office\.com/webhook",
        _LETTERS + _DIGITS + b":/.-",
        80,
        rb"(?:https?://)?[a-z0-9.-]{1,60}\.office\.com/webhook[a-z0-9]{0,4}/[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/"
        rb"[0-9a-f]{32}/[0-9a-f-]{36}",
    ),
)

_AZURE_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_AZURE_KEY_ALPHABET = _AZURE_ALPHABET + b"+/_-="
_AZURE_TAIL = LazyPattern(rb"JQQJ9[0-9][A-Za-z0-9]{26}" + _END)
_AZURE_SECRET = LazyPattern(rb"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}" + _END)
_AZURE_ACCOUNT = LazyPattern(rb"AccountKey=([A-Za-z0-9+/]{86}==)")


def _azure_service_key(text: bytes, start: int, _: int) -> ByteRange | None:
    """84 letters and digits with `JQQJ9` after the 52nd."""
    tail = _AZURE_TAIL.match(text, start)
    head = text[max(0, start - 52) : start]
    run = len(head) - len(head.rstrip(_AZURE_ALPHABET))
    return (start - 52, tail.end()) if tail and run == 52 else None


# Keys of other Azure services: a mark that the issuer puts inside, and how many characters precede and follow it.
_AZURE_MARKS = {
    b"AZDO": (76, 4),
    b"AzSe": (42, 6),
    b"AzFu": (44, 8),
    b"+ASt": (76, 6),
    b"ACDb": (76, 6),
    b"+ACR": (42, 6),
}


def _azure_marked_key(text: bytes, start: int, _: int) -> ByteRange | None:
    """A key of Azure DevOps, Search, Functions, Storage, Cosmos DB or the container registry."""
    before, after = _AZURE_MARKS[text[start : start + 4]]
    first, end = start - before, start + 4 + after
    if first < 0 or end > len(text) or text[first:end].strip(_AZURE_KEY_ALPHABET):
        return None
    end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip(b"="))
    around = text[max(0, first - 1) : first].strip(b"=") + text[end : end + 1]
    is_inside = any(byte in _AZURE_KEY_ALPHABET for byte in around)  # In base64, such a mark stands by chance.
    return None if is_inside else (first, end)


def _azure_client_secret(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _AZURE_SECRET.match(text, after_edge(text, start))
    return match.span() if match else None


def _azure_account_key(text: bytes, start: int, _: int) -> ByteRange | None:
    match = _AZURE_ACCOUNT.match(text, start)
    return match.span(1) if match else None


_JWT_START = rb"e(?:y[AIJ]|w[ok0])"  # `{`, and a space, a quote, a line break or a tab
_JWT_START_BASE64 = rb"ZX(?:l[BJK]|d[rv]|cw)"
_JWT_HEADER = LazyPattern(rb"(" + _JWT_START + rb"[A-Za-z0-9_-]{8,4096}+)\.")
_JWT_REST = LazyPattern(
    rb"([A-Za-z0-9_-]{4,65536}+|(?=\.[A-Za-z0-9_-]))(?:(?:\.[A-Za-z0-9_-]{1,65536}+){1,3}|\.(?![A-Za-z0-9_-]))?"
)
_JWT_BASE64 = LazyPattern(_JWT_START_BASE64 + rb"[A-Za-z0-9+/_-]{40,65536}={0,2}")
_CLAIM = LazyPattern(rb'"(?:alg|typ|kid|enc|cty)"')


def _jwt(text: bytes, start: int, _: int) -> ByteRange | None:
    """Two parts or more, the first of which is the JSON header of a token."""
    first = _JWT_HEADER.match(text, after_edge(text, start))
    if first is None:
        return None
    header = _decode_part(first[1])
    rest = _JWT_REST.match(text, first.end()) if _CLAIM.search(header) else None
    if rest is None:
        return None
    # People write such JSON over several lines as well, with a line break at its end; an issuer's ends with `}`.
    is_by_hand = header[1:2] in (b"\r", b"\n", b"\t") and b"}\n" in (header[-2:], _decode_part(rest[1])[-2:])
    return None if is_by_hand else (first.start(), rest.end())


def _decode_part(part: bytes) -> bytes:
    return _decode(_pad(part)).rstrip(b"\0")


def _jwt_base64(text: bytes, start: int, _: int) -> ByteRange | None:
    """A token that was encoded once more."""
    match = _JWT_BASE64.match(text, after_edge(text, start))
    return match.span() if match and _jwt(_decode(match[0].rstrip(b"=")), 0, 0) else None


_SPACE = rb"(?: |\+|%(?:25)?20)"  # also as URLs and forms write it
_PEM_LABEL = rb"(?:" + _SPACE + rb"?[A-Z0-9]+){0,3}" + _SPACE + rb"PRIVATE" + _SPACE + rb"KEY"
_PEM_MARK = _PEM_LABEL + rb"(?:" + _SPACE + rb"BLOCK)?" + _SPACE + rb"?-{4,5}"
_PEM_BEGIN = LazyPattern(rb"-{4,5}" + _SPACE + rb"?BEGIN" + _PEM_MARK)
_PEM_END = LazyPattern(rb"-{4,5}" + _SPACE + rb"?END" + _PEM_MARK)
_PEM_BODY = LazyPattern(rb"(?:[A-Za-z0-9+/=\s\"'`,*#>|]|\\[nrt]|%[0-9A-Fa-f]{2}|-(?!----)|[:.()])*")
# `-----BEGIN` in base64, as it begins, and as it stands after one or two bytes more.
_PEM_BASE64_MARK = rb"(?:LS0tLS1CRUdJTi|0tLS0tQkVHSU4g|tLS0tLUJFR0lOI)"
_PEM_BASE64 = LazyPattern(rb"(?:[A-Za-z0-9+/_-]+|\s+|\\{1,2}[nr]){1,4096}={0,2}")
_PEM_HEAD_BYTES = 160
_LINE_BREAKS = LazyPattern(rb"\s+|\\{1,2}[nr]")
_BASE64_HEAD = LazyPattern(rb"[A-Za-z0-9+/_-]*")
_BASE64_BEFORE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# The first bytes of a private key without lines around it: RSA, EC and Ed25519 in DER, and OpenSSH.
_DER_MARK = (
    rb"(?:MII[BCEJ][A-Za-z0-9+/]{2}I(?:BAAKCA|BADANBgkqhkiG9w0BAQEFAASC)|MI[GH][A-Za-z0-9+/]AgEAMBMGByqGSM49"
    rb"|M[HI][A-Za-z0-9+/]{0,3}AgEBBC|MC4CAQAwBQYDK2VwBCIEI|b3BlbnNzaC1rZXktdjEA)"
)
_ED25519_BYTES, _RSA_BYTES_MIN = 60, 120
_DER = LazyPattern(rb"(?:[A-Za-z0-9+/]+|\s+|\\{1,2}[nr]){1,4096}={0,2}")


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
    before = text[max(0, start - 8) : start]
    first = start - len(before) + len(before.rstrip(_BASE64_BEFORE))
    head = _LINE_BREAKS.sub(b"", text[first : first + _PEM_HEAD_BYTES])  # Enough to tell, and little to look at.
    if not any(b"PRIVATE KEY" in _decode(_BASE64_HEAD.match(head, shift)[0]) for shift in range(4)):  # type: ignore[index]
        return None
    match = _PEM_BASE64.match(text, first)
    return match.span() if match else None


def _der(text: bytes, start: int, _: int) -> ByteRange | None:
    """The text of a private key without the lines around it."""
    match = _DER.match(text, after_edge(text, start))
    if match is None or len(match[0]) < (_RSA_BYTES_MIN if match[0].startswith(b"MII") else _ED25519_BYTES):
        return None
    return match.span() if len(set(match[0][:_RSA_BYTES_MIN])) >= 20 else None


# A password as crypt, bcrypt, argon2 and their kin store it: the method, its parameters, the salt, and the hash.
_HASH_METHOD = rb"\$(?:[15689y]|2[abxy]|apr1|krb5(?:tgs|asrep|pa)|argon2(?:id|i|d)|scrypt|pbkdf2-sha(?:1|256|512))\$"
_PASSWORD_HASH = LazyPattern(_HASH_METHOD + rb"(?:[A-Za-z0-9./+=,_-]{1,96}\$){0,3}[A-Za-z0-9./+=]{22,128}")


def _password_hash(text: bytes, start: int, _: int) -> ByteRange | None:
    """`$6$…$…`: from it, a weak password can be guessed."""
    match = _PASSWORD_HASH.match(text, start)
    if match is None or count_digits(match[0]) < 3 or entropy(match[0]) < 3.5:
        return None
    return start, start + len(match[0].rstrip(b"."))


BLOCKS = (
    *MARKED,
    Detector("SECRET", _HASH_METHOD + rb"[A-Za-z0-9./]", _password_hash),
    Detector("AZURE", rb"JQQJ9[0-9][A-Z]", _azure_service_key),
    Detector("AZURE", rb"(?:AZDO|AzSe|AzFu|\+ASt|ACDb|\+ACR)[A-Za-z0-9+/=_-]{4}", _azure_marked_key),
    Detector("AZURE", rb"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{8}", _azure_client_secret, RUN_EDGE),
    Detector("AZURE", rb"AccountKey=[A-Za-z0-9+/]{8}", _azure_account_key),
    Detector("JWT", _JWT_START + rb"[A-Za-z0-9_-]{8}", _jwt, EDGE),
    Detector("JWT", _JWT_START_BASE64 + rb"[A-Za-z0-9+/]{8}", _jwt_base64, EDGE),
    Detector("PRIVATE_KEY", rb"-{4,5}[ +]?(?:%20)?BEGIN[ +%A-Z0-9]*PRIVATE[ +%]", _pem),
    Detector("PRIVATE_KEY", _PEM_BASE64_MARK + rb"[A-Za-z0-9+/]{8}", _pem_base64),
    Detector("PRIVATE_KEY", _DER_MARK, _der, EDGE),
)
