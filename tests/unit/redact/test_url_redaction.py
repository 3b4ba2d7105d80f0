"""The account in the address of a resource of AWS."""

from __future__ import annotations

import pytest

from traceforge.redact.redactor import Redactor

HOST = "https://bedrock-runtime.us-east-1.amazonaws.com"
ARN = "arn:aws:bedrock:us-east-1:{}:application-inference-profile/a1"


@pytest.mark.parametrize("colon", [":", "%3A", "%3a"])
@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_an_account_is_redacted_and_the_resource_is_not(colon: str, partition: str) -> None:
    """However a client writes the colons."""
    arn = ARN.replace("aws:", f"{partition}:").replace(":", colon)

    redacted = Redactor().redact_url(f"{HOST}/model/{arn.format('123456789012')}/converse")

    assert f"{HOST}/model/{arn.format('[REDACTED]')}/converse" == redacted.value
    assert [("ACCOUNT", "123456789012")] == [(item.type, item.reveal()) for item in redacted.log]


def test_a_number_without_a_resource_is_kept() -> None:
    """And a resource that belongs to no account, as the models of Bedrock."""
    for path in ("/orders/123456789012", "/model/arn:aws:bedrock:us-east-1::foundation-model/m/converse"):
        assert f"{HOST}{path}" == Redactor().redact_url(f"{HOST}{path}").value


def test_the_accounts_of_an_error_are_redacted_in_it() -> None:
    """Each of them, also where its digits could be those of a time."""
    text = (
        f"{ARN.format('123456789012')} is not allowed to arn:aws:sts::998877665544:assumed-role/clerk of 998877665544"
    )

    redacted = Redactor().with_accounts(text).redact_text(text)

    assert ("123456789012" in redacted, "998877665544" in redacted) == (False, False)
    assert "assumed-role/clerk" in redacted
