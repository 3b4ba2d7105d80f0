"""What a client of Google or Microsoft gets in a replay when it exchanges credentials for an access token.

In: the URL of such a request. Out: the answer. Never: sends anything, or says that this machine is in a cloud:
clients would then choose other credentials than those that the project has.

The answers have what google-auth, azure-identity (MSAL) and their relatives read, and nothing else. The token in them
is made up; no provider accepts it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .guarded_call import GuardedCall
from .replayed_response import ReplayedResponse
from .token_urls import (
    AZURE_METADATA_URL,
    GOOGLE_ACCOUNT_URL,
    GOOGLE_METADATA_URL,
    MICROSOFT_DISCOVERY_URL,
    find_place,
)

DUMMY_TOKEN = "traceforge-test-dummy-token"  # noqa: S105
DUMMY_PROJECT = "traceforge-test"
AWS_KEY_VARIABLE = "AWS_ACCESS_KEY_ID"
DUMMY_AWS_KEY = "traceforge-test-dummy-key"  # botocore exchanges nothing where a variable has a key.
TOKEN_VALID_S = 3600  # As long as real ones, so that a client asks once.
EXPIRES_ON = 4_102_444_800  # the year 2100, for clients that compare it with the clock

_TOKEN = {"access_token": DUMMY_TOKEN, "token_type": "Bearer", "expires_in": TOKEN_VALID_S}
_METADATA = {
    "project-id": DUMMY_PROJECT,
    "numeric-project-id": "0",
    "universe-domain": "googleapis.com",
    "email": "default",
    "scopes": "https://www.googleapis.com/auth/cloud-platform",
}


class TokenCall(GuardedCall):
    """A call that is answered with a token of no value; no watcher counts it."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        super().__init__(None)
        self.replays_first = True
        self._url = url

    def replay(self, body: bytes) -> Any:
        return answer_token_exchange(self._url)


def answer_token_exchange(url: str) -> ReplayedResponse:
    """What a client of the cloud expects."""
    place = find_place(url)
    flavor: "tuple[tuple[str, str], ...]" = ()
    if re.match(GOOGLE_METADATA_URL, place):
        flavor = (("Metadata-Flavor", "Google"),)
        answer = _answer_metadata(place)
    elif re.match(GOOGLE_ACCOUNT_URL, place):
        answer = {"accessToken": DUMMY_TOKEN, "expireTime": "2100-01-01T00:00:00Z"}
    elif re.match(MICROSOFT_DISCOVERY_URL, place):
        answer = _answer_discovery(place)
    elif re.match(AZURE_METADATA_URL, place):
        answer = {**_TOKEN, "expires_in": str(TOKEN_VALID_S), "expires_on": str(EXPIRES_ON), "resource": ""}
    else:
        answer = {
            **_TOKEN, "ext_expires_in": TOKEN_VALID_S, "scope": _METADATA["scopes"],
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }  # fmt: skip
    text = answer if isinstance(answer, str) else json.dumps(answer)
    media_type = "application/text" if isinstance(answer, str) else "application/json"
    body = text.encode()
    headers = (("Content-Type", media_type), *flavor, ("Content-Length", str(len(body))))
    return ReplayedResponse(200, headers, [(0.0, body)])


def _answer_metadata(place: str) -> Any:
    name = place.rstrip("/").rpartition("/")[2]
    if name == "token":
        return _TOKEN
    if name in _METADATA:
        return _METADATA[name]
    return {"aliases": ["default"], "email": "default", "scopes": [_METADATA["scopes"]]}  # of an account


def _answer_discovery(place: str) -> Any:
    host, tenant = place.split("/")[:2]
    issuer = f"https://{host}/{tenant}"
    if place.endswith("/discovery/instance"):
        metadata = {"preferred_network": host, "preferred_cache": host, "aliases": [host]}
        configuration = f"{issuer}/v2.0/.well-known/openid-configuration"
        return {"tenant_discovery_endpoint": configuration, "api-version": "1.1", "metadata": [metadata]}
    return {
        "issuer": f"{issuer}/v2.0",
        "token_endpoint": f"{issuer}/oauth2/v2.0/token",
        "authorization_endpoint": f"{issuer}/oauth2/v2.0/authorize",
        "device_authorization_endpoint": f"{issuer}/oauth2/v2.0/devicecode",
    }
