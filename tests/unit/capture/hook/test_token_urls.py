"""URLs at which clients exchange credentials for an access token."""

from __future__ import annotations

import pytest

from traceforge.capture.hook.model_call_rules import WatchedHosts, is_model_call
from traceforge.capture.hook.token_urls import is_token_exchange

EXCHANGES = [
    "https://oauth2.googleapis.com/token",
    "https://OAuth2.googleapis.com:443/token",
    "https://sts.googleapis.com/v1/token",
    "https://oauth2.mtls.googleapis.com/token",
    "https://sts.mtls.googleapis.com/v1/token",
    "https://oauth2.europe-west1.rep.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v3/token",
    "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@b.iam.gserviceaccount.com:generateAccessToken",
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token?scopes=x",
    "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/?recursive=true",
    "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource=r",
    "https://login.microsoftonline.com/my-tenant/oauth2/v2.0/token",
    "https://login.microsoftonline.com/my-tenant/v2.0/.well-known/openid-configuration",
    "https://westeurope.login.microsoft.com/my-tenant/oauth2/v2.0/token",
    "https://westeurope.r.login.microsoftonline.com/my-tenant/oauth2/v2.0/token",
    "https://sts.windows.net/my-tenant/oauth2/token",
    "https://login.microsoftonline.com/common/discovery/instance?api-version=1.1",
]
OTHERS = [
    "https://oauth2.googleapis.com/token/more",
    "https://oauth2.googleapis.com:8443/token",
    "https://evil.oauth2.googleapis.com/token",
    "https://oauth2.evil.googleapis.com/token",
    "https://a.b.login.microsoft.com/t/oauth2/v2.0/token",
    "https://evil.example/oauth2.googleapis.com/token",
    "https://login.microsoftonline.com.evil.example/t/oauth2/v2.0/token",
    "https://api.openai.com/v1/responses/input_tokens",
    "https://generativelanguage.googleapis.com/v1beta/models/g:countTokens",
    "http://169.254.169.254/",
    "http://169.254.169.254/latest/api/token",
    "https://[broken/oauth2/token",
]


@pytest.mark.parametrize("url", EXCHANGES)
def test_a_token_exchange_is_recognised_and_never_recorded(url: str) -> None:
    """Also where a project names its host, or records all HTTP."""
    hosts = WatchedHosts(["*", "*.googleapis.com", "login.microsoftonline.com", "169.254.169.254"])

    assert is_token_exchange(url)
    assert not is_model_call("POST", url, hosts)
    assert not is_model_call("GET", url, hosts)


@pytest.mark.parametrize("url", OTHERS)
def test_other_urls_are_none(url: str) -> None:
    """Of other hosts, ports and paths; nor the question whether this machine is in a cloud."""
    assert not is_token_exchange(url)
