"""The keys that a vendor marks with a prefix."""

from __future__ import annotations

from random import Random

import pytest

from support.fake_secrets import ALNUM
from support.secret_shapes import LOWER
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
RANDOM = Random(11)
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _draw(alphabet: str, length: int) -> str:
    return "".join(RANDOM.choices(alphabet, k=length))


def _alnum(length: int) -> str:
    return _draw(ALNUM, length)


def _lower(length: int) -> str:
    return _draw(LOWER, length)


@pytest.mark.parametrize(
    "key",
    [
        f"akab-{_lower(16)}-{_lower(16)}",
        f"bkua_{_lower(53)}",
        f"cnvca{_alnum(51)}",
        f"csa_{_alnum(36)}",
        f"configcat-sdk-1/{_alnum(22)}/{_alnum(22)}",
        f"dnkey-{_draw(UPPER, 26)}-{_draw(UPPER, 52)}",
        f"dvc_server_{_alnum(18)}",
        f"SWMTKN-1-{_lower(50)}-{_lower(25)}",
        f"SWMKEY-1-{_alnum(20)}/{_alnum(20)}",
        f"EXO{_alnum(28)}",
        f"FLWSECK_TEST-{_lower(12)}",
        f"lip_{_alnum(22)}",
        f"llx-{_alnum(20)}_{_alnum(20)}-{_alnum(8)}",
        f"mlsn.{_alnum(38)}",
        f"mercury_production_{_lower(6)}_{_alnum(44)}_yrucrem",
        f"mergify_application_key_{_alnum(44)}",
        f"polar_oat_{_alnum(28)}",
        f"PMAT-{_draw(UPPER, 26)}",
        f"sbp_v0_{_draw('0123456789abcdef', 40)}",
        f"tss_{_alnum(28)}",
        f"wrka-{_alnum(40)}.{_alnum(60)}",
        f"zpka_{_lower(32)}_{_lower(8)}",
        f"u+{_alnum(8)}+{_alnum(9)}",
        f"access_token$production${_lower(16)}${_lower(32)}",
        f"A21AA{_alnum(40)}-{_alnum(40)}",
        f"bce-v3/ALTAK-{_alnum(21)}/{_lower(40)}",
        f"standard_{_draw('0123456789abcdef', 256)}",
        f"xau_{_alnum(12)}-{_alnum(18)}",
        f"gitlab_session={_lower(32)}",
        f"xoxd-{_alnum(40)}%2B{_alnum(20)}/{_alnum(20)}",
        f"xoxr-{_alnum(16)}",
        f"https://hooks.zapier.com/hooks/catch/{_alnum(12)}/{_alnum(7)}",
        f"eu01xx{_lower(26)}FFFFNRAL",
        f"$6${_alnum(8)}${_alnum(40)}/{_alnum(40)}",
        f"$5$rounds=5000${_alnum(16)}${_alnum(43)}",
        f"$2b$12${_alnum(30)}.{_alnum(22)}",
        f"$argon2id$v=19$m=65536,t=3,p=4${_alnum(16)}${_alnum(43)}",
    ],
)
@pytest.mark.parametrize("frame", ["{}", '{{"value": "{}"}}', "use {} now"])
def test_a_key_with_the_prefix_of_its_vendor_is_redacted_as_a_whole(frame: str, key: str) -> None:
    """Also where it is the whole value of a member whose name says nothing."""
    assert frame.format("[REDACTED]") == REDACTOR.redact_text(frame.format(key))


@pytest.mark.parametrize(
    "text",
    [
        "it costs $5 or $6$ and more, $1$2$3",
        "EXOSKELETON_CONFIGURATION_2024_RELEASE",
        "see tss_configuration_of_the_service_2024 and lip_sync_settings_for_all",
        "csa_standards_committee_of_the_year_2024",
        "hooks.zapier.com/hooks/catch/",
    ],
)
def test_a_text_that_begins_like_such_a_key_is_unchanged(text: str) -> None:
    """Prices, and names in code."""
    assert text == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    "key", [f"acme_{_alnum(12)}-{_alnum(14)}_{_alnum(11)}", f"eu7.{_alnum(44)}", f"acme-{_alnum(8)}_{_alnum(30)}"]
)
def test_a_divided_key_of_an_unknown_vendor_is_found_in_a_text(key: str) -> None:
    """No row of the table has its prefix; random text after it is enough, also where `-` and `_` divide it."""
    assert "use [REDACTED] now" == REDACTOR.redact_text(f"use {key} now")


@pytest.mark.parametrize(
    "text",
    [
        "call convert.toUtf8FromUtf16AndBase64UrlOfRfc4648 twice",
        "see acme-release-2024-08-06-with-Python-3-and-Windows-11",
        "run worker-7d9f8b6c5d-x2x4z-7d9f8b6c5d-x2x4z",
        "open index.B3xK9mQ2vT7pL4nR8sW1yZ6c.js now",
        "chunk sha384-oqVuAfXRKap7fdgcCY5uykM6R9GqQ8Kuxy9rx7HNQlGYl1k now",
        "the call call_Ab3dE5gH7jK9mN1pQ3sT5vX7 and msg_01Ab3dE5gH7jK9mN1pQ3sT5vX7",
        "test_A1_B2_C3_D4_E5_F6_G7_H8_I9_J0_for_all_cells",
        "at com.example.V2ApiController3Test4Case.run",
    ],
)
def test_a_name_that_is_divided_like_a_key_is_unchanged(text: str) -> None:
    """Names in code, releases, pods, bundles, digests and ids of providers."""
    assert text == REDACTOR.redact_text(text)
