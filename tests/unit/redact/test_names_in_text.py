"""Secrets that a name beside them, or the manner of a key, gives away in free text."""

from __future__ import annotations

from random import Random

import pytest

from support.fake_secrets import ALNUM, draw
from support.secret_shapes import hexadecimal, uuid4
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
MIXED = draw(Random(3), 36, ALNUM)
HEX = hexadecimal(Random(4), 32)
UUID = uuid4(Random(5))
LONG = draw(Random(6), 1_400, ALNUM)


@pytest.mark.parametrize(
    "text",
    [
        f"[DEBUG] Using Key={MIXED}",
        f'key = "{HEX}"',
        f"acme token - '{MIXED}'",
        f"ACME KEY {HEX}",
        f"Your ACME key is {HEX}, keep it",
        f"acme_key = {UUID}",
        f"acmeKey={UUID}",
        f"secret_id = '{UUID}'",
        f'api_key: str = "{MIXED}"',
        f'const acmeKey string = "{MIXED}"',
        f'const acmeApiKey =\n    "{HEX}";',
        f'acme_token: "{LONG}"',
        f"Unseal Key 2: {MIXED}",
        f"token = ' {MIXED} '",
        f'placeholder="token: &quot;{MIXED}&quot;"',
        f"buildConfigField 'String', 'API_KEY', '\"{HEX}\"'",
        "acme_token = 'fg4asyuq4ume3m'",
        f"https://example.com/version2/token/{MIXED}",
        f'acmeApiKey:            "{HEX}"',
        f"acme_key = {MIXED[8:19]}-{MIXED[19:28]}",
    ],
)
def test_a_value_beside_a_secret_name_is_redacted(text: str) -> None:
    """However the name and the value are joined."""
    cleaned = REDACTOR.redact_text(text)

    assert not any(part in cleaned for part in (MIXED[9:18], HEX[8:24], UUID[9:30], LONG[20:1_300], "asyuq4ume"))


@pytest.mark.parametrize("value", [MIXED, HEX])
@pytest.mark.parametrize(
    "name", ["smtp_password", "otp_secret", "reset_token", "vault_token", "sharedAccessKey", "pwd"]
)
def test_a_member_is_judged_by_its_name_and_value_as_in_a_text(name: str, value: str) -> None:
    """Also the last one, and one whose text was cut off before its closing quote."""
    body = f'{{"settings":{{"{name}":"{value}","port":25}},"list":[{{"{name}":"{value}"}}]}}'.encode()

    cleaned = REDACTOR.redact_body(body, "application/json").value

    assert body.replace(value.encode(), b"[REDACTED]") == cleaned
    assert f'{{"{name}": "[REDACTED]' == REDACTOR.redact_text(f'{{"{name}": "{value}')


@pytest.mark.parametrize(
    "body",
    [
        f'{{"command":"npx","args":["-y","server","--api-key","{MIXED}"]}}',
        f'{{"args":["--db-password","{MIXED}","--port","25"]}}',
        f'{{"headers":[["accept","*/*"],["x-any-token","{MIXED}"]]}}',
        f'{{"api_keys":["{HEX}","{MIXED}"]}}',
        f'{{"smtp_password":["{MIXED}"]}}',
    ],
)
def test_a_text_of_a_list_is_judged_by_what_names_it(body: str) -> None:
    """The option before it, its name in a pair, or the name of the list."""
    expected = body.replace(MIXED, "[REDACTED]").replace(HEX, "[REDACTED]")

    assert expected.encode() == REDACTOR.redact_body(body.encode(), "application/json").value


@pytest.mark.parametrize(
    "body",
    [
        '{"required":["password","api_key"],"enum":["token","secret"]}',
        f'{{"args":["--model","{HEX}"],"ids":["{MIXED}","{HEX}"],"tokens":[" inter","national"]}}',
    ],
)
def test_a_text_of_a_list_without_a_secret_name_is_unchanged(body: str) -> None:
    assert body.encode() == REDACTOR.redact_body(body.encode(), "application/json").value


def test_members_that_hold_no_secret_are_unchanged() -> None:
    """A plain word, a place in a list, a name of something else."""
    body = (
        f'{{"reset_token":"disabled","nextPageToken":"{MIXED}","storage_key":"{HEX}","secret_name":"{HEX}"}}'.encode()
    )

    assert body == REDACTOR.redact_body(body, "application/json").value


@pytest.mark.parametrize(
    "text",
    [
        "mysql -u root --password {}",
        "gpg --decrypt --passphrase {} --output a",
        "run --token {}",
        "Connect-VIServer -User ann -Password {}",
        "Get-Thing -Password '{}'",
        "CREATE USER app WITH ENCRYPTED PASSWORD '{}' CREATEDB",
        "create role app login password '{}';",
        "CREATE USER 'app' IDENTIFIED BY '{}';",
        '#define PASSWORD "{}"',
        'SET password "{}"',
    ],
)
def test_a_password_after_its_name_and_a_space_is_redacted(text: str) -> None:
    """After an option, and in quotes: SQL, macros and shells have no sign between them."""
    assert text.format("[REDACTED]") == REDACTOR.redact_text(text.format("SqLpa5sW0rDx"))


@pytest.mark.parametrize(
    "text",
    [
        "the password 'hunter' is weak",
        "run --password PASSWORD --token TOKEN",
        "say --token-count 4096 and --password-file /run/secrets/db1",
        "ALTER USER app PASSWORD 'your_password1'",
        "use -key value1 or -auth none",
        "sort_key = user-profile-2024-settings-V2",
        f"the primary key {HEX}",
        f"the cache key {HEX} expired",
        f"the key {HEX}",
        f'{{"key": "{HEX}"}}',
        f'{{"session_key": "{UUID}"}}',
        f"primary_key = {UUID}",
        "token: preprocessing-step",
        "token = 'internationalisation'",
    ],
)
def test_a_name_that_marks_no_secret_changes_nothing(text: str) -> None:
    """A hash or an id after a word that ends in `key`."""
    assert text == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    "frame", ["use {} now", "export VALUE={}", 'open("{}")', "a = '{}'", "run `{}`", "<v>{}</v>", "a\n{}\nb"]
)
@pytest.mark.parametrize("prefix", ["acme_", "acme-", "ACME_", "acme_eu_", "qx-v2-"])
def test_a_key_of_a_vendor_that_no_table_has_is_redacted(frame: str, prefix: str) -> None:
    """A word, a mark, and random text of both cases with digits."""
    text = frame.format(prefix + MIXED)

    assert frame.format("[REDACTED]") == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"id": "acme_{MIXED}"}}',
        f'{{"ids": ["acme_{MIXED}", "acme_{MIXED}x"]}}',
        f"no tool output for call_{MIXED} was sent",
        f"request req_{MIXED} failed",
        f"the file file-{MIXED} of msg_{MIXED}",
        "the group (`rlg_01VPTCmyiu5ZLsWkcxYG2pY8`)",
        f"see acme_{HEX}{HEX}",
        f"sha256-{MIXED}",
        f"https://example.com/acme_{MIXED}",
        "use aVeryLongNameOfAFunction_ThatGoesOnAndOnForEver2",
    ],
)
def test_an_id_is_unchanged(text: str) -> None:
    """The value of a member, and the words with which ids of model providers begin."""
    assert text == REDACTOR.redact_text(text)


def test_an_id_is_unchanged_in_a_body() -> None:
    """As a whole value, of a member or of a list."""
    body = f'{{"id":"acme_{MIXED}","list":["acme-{MIXED}"],"items":[{{"ref":"qx_{MIXED}"}}]}}'.encode()

    assert body == REDACTOR.redact_body(body, "application/json").value


def test_the_signature_of_a_model_is_unchanged() -> None:
    """Some begin with the letters of an Alibaba token."""
    text = f'"signature": "CAISzQIKhwEIEBgCKkA6{MIXED}{MIXED}{MIXED}{MIXED}"'

    assert text == REDACTOR.redact_text(text)
