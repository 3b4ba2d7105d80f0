"""Which hosts are left out where a project records all HTTP."""

from __future__ import annotations

import pytest

from traceforge.capture.hook.model_call_rules import WatchedHosts, is_model_call
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.config import Config

ALL_HTTP = WatchedHosts(list_watched_hosts(Config(record_http="all")))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/iam/security-credentials/clerk",
        "http://169.254.170.2/v2/credentials/1",
        "https://sts.eu-west-1.amazonaws.com/",
        "https://sts.amazonaws.com/",
        "https://sts.us-east-1.api.aws/",
        "https://portal.sso.us-east-1.amazonaws.com/federation/credentials",
        "https://rolesanywhere.us-east-1.amazonaws.com/sessions",
        "https://cognito-identity.us-east-1.amazonaws.com/",
    ],
)
def test_services_that_give_out_keys_are_not_recorded(url: str) -> None:
    """Their answers are nothing but keys."""
    assert not is_model_call("POST", url, ALL_HTTP)


def test_other_services_are() -> None:
    assert is_model_call("PUT", "https://menu.s3.us-east-1.amazonaws.com/soup", ALL_HTTP)
