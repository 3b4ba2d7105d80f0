"""URLs at which clients of Google and Microsoft exchange credentials for an access token.

In: a URL. Out: whether it is one of these, or of the requests that prepare one. Such a request is never recorded, not
even with `record_http: all`: it holds keys, and the token of a recording is of no use. A replay answers it
(`token_exchange.py`). A request that asks whether this machine is in a cloud does not count.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_GOOGLE_URL = (
    r"(?:oauth2\.(?:mtls\.|[\w-]+\.rep\.)?googleapis\.com/token"
    r"|(?:accounts\.google\.com/o/oauth2|www\.googleapis\.com/oauth2/v[34])/token"
    r"|sts\.(?:mtls\.|[\w-]+\.rep\.)?googleapis\.com/v1/(?:oauth)?token)\Z"
)
GOOGLE_ACCOUNT_URL = r"iamcredentials\.googleapis\.com/v1/projects/[^/]+/serviceAccounts/[^/]+:generateAccessToken\Z"
GOOGLE_METADATA_URL = (
    r"(?:metadata(?:\.google\.internal)?|169\.254\.169\.254)/computeMetadata/v1"
    r"/(?:instance/service-accounts|project|universe)/.+"
)
_MICROSOFT_HOST = (
    r"(?:login\.(?:microsoftonline\.(?:com|us)|partner\.microsoftonline\.cn|windows\.net|chinacloudapi\.cn)"
    r"|(?:[\w-]+\.)?login\.microsoft\.com|[\w-]+\.r\.login\.microsoftonline\.com|sts\.windows\.net"
    r"|[\w.-]+\.ciamlogin\.com)"
)
_MICROSOFT_URL = rf"{_MICROSOFT_HOST}/[^/]+/oauth2/(?:v2\.0/)?token\Z"
MICROSOFT_DISCOVERY_URL = (
    rf"{_MICROSOFT_HOST}/(?:[^/]+/(?:v2\.0/)?\.well-known/openid-configuration|common/discovery/instance)\Z"
)
AZURE_METADATA_URL = r"169\.254\.169\.254/metadata/identity/oauth2/token\Z"
_HINTS = r"[tT]oken|/(?:computeMetadata|discovery|\.well-known)/"  # Most URLs have none of them, and are not parsed.
_TOKEN_EXCHANGE = "|".join(
    (
        _GOOGLE_URL, GOOGLE_ACCOUNT_URL, GOOGLE_METADATA_URL, _MICROSOFT_URL, MICROSOFT_DISCOVERY_URL,
        AZURE_METADATA_URL,
    )
)  # fmt: skip


def is_token_exchange(url: str) -> bool:
    """Whether a request to this URL exchanges credentials for a token, or prepares that."""
    return re.search(_HINTS, url) is not None and re.match(_TOKEN_EXCHANGE, find_place(url)) is not None


def find_place(url: str) -> str:
    """The host in lower case, without a default port, and the path."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or ''}{parts.path}" if parts.port in (None, 80, 443) else ""
    except ValueError:
        return ""  # not a URL: the client will say so
