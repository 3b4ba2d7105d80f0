"""What the detectors find in a text, and what they leave."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from support.example_counts import RunLength
from support.fake_secrets import SECRETS, draw, jwt, luhn, pem
from support.work_counts import count_lines
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor
from traceforge.redact.vendor_key_table import SOURCES, VENDOR_KEYS

REDACTOR = Redactor()
SOURCE = Random(2)
HEX32 = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize("kind", sorted(SECRETS))
@pytest.mark.parametrize("frame", ["{}", "it is {}.", '"{}"', "<{}>", "a\n{}\nb", "请{}吧", "key={}", "({})"])
def test_every_type_of_secret_is_found_from_first_to_last_character(kind: str, frame: str) -> None:
    """And no character around it."""
    for seed in range(20):
        secret = SECRETS[kind](Random(seed))
        text = frame.format(secret)

        assert [(secret, kind)] == [(text[span.start : span.end], span.type) for span in REDACTOR.find_secrets(text)]


@pytest.mark.parametrize("kind", sorted(set(SECRETS) - {"PHONE", "US_SSN", "CREDIT_CARD", "AZURE"}))
def test_a_secret_after_an_escaped_line_break_is_found(kind: str) -> None:
    """In the text of a JSON document the `n` of `\\n` is not the beginning of a word."""
    secret = SECRETS[kind](Random(7)).replace("\n", "\\n")

    cleaned = REDACTOR.redact_text(f'{{"content": "one\\n{secret}\\ntwo"}}')

    assert f'{{"content": "one\\n{REDACTED}\\ntwo"}}' == cleaned


@pytest.mark.parametrize(
    "text",
    [
        '"max_tokens": 4096',
        '"created": 1778027168',
        '"created_ms": 1753879075170',
        '"load_duration":269880958',
        '"avgLogprobs": -0.4111111111111111',
        '"id": "chatcmpl-D0zhXqPGG26OqwNqE5waw81EF4BXE"',
        '"id": "call_4111111111111111"',
        '"id": 4111111111111111',
        '"seed": 4111111111111111',
        '"prompt_cache_key": "tenant-0123456789abcdef"',
        '"token": "antidisestablishmentarianism", "logprob": -0.1',
        '"nextPageToken": "Ch9tb2RlbHMvdmVvLTMuMS1nZW5lcmF0ZQ"',
        '"password": {"title": "Password", "type": "string"}',
        "a task-based-learning-approach-for-everyone",
        "class sk-estimator-doc-link and sk-toggleable__label-arrow",
        "the bearer of bad news, basic arithmetic",
        "password: ask your administrator",
        "api_key = os.environ['OPENAI_API_KEY']",
        "token = tokenizer.encode_plus(text)",
        "Authorization: Bearer $API_KEY",
        "Authorization: Bearer XXXXXXXXXXXXXXXX",
        "https://example.com/?key={key}",
        "curl -u test:test https://example.com; curl -u '$1:$2'; curl --user neo4j:[PASSWORD]",
        "postgres://${USER}:${PASSWORD}@localhost/db",
        "git@github.com:owner/repo.git",
        "icon@2x.png",
        "npm install left-pad@5.20.0",
        "2026-01-09 10:30:00, 192.168.100.200",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
        "order 4111111111111112",
        "123456789",
        "000-12-3456 666-12-3456 912-12-3456 123-00-1234 123-12-0000",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "sk-your-api-key-here, sk-xxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAIOSFODNN7EXAMPLE",
        "openai.api_key = YOUR_API_KEY, sk-..., key = os.environ['X_KEY'], token = get_token()",
        'client = OpenAI(api_key="YOUR_API_KEY"); client = Client(token="<your-token>")',
        "export OPENAI_API_KEY=your-key-here; export TOKEN=$GITHUB_TOKEN; PASSWORD=changeme",
        '"id": "resp_68a1b2c3d4e5f60718293a4b5c6d7e8f", "call_id": "call_9f86d081884c7d659a2feaa0c55ad015"',
        "the key msg_01XFDUDYJgAACzvnptvVoYEL and the token toolu_01A09q90qw90lq917835lq9",
        "sha256:9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
        '"system_fingerprint": "fp_9f86d08188", "cache_key": "9f86d081884c7d659a2feaa0c55ad015"',
        "<token>the</token> <key>name</key> <label for='password'>Password</label> <input type=\"password\">",
        "python train.py --max-tokens 4096 --tokenizer gpt2 --key-file server.pem --auth none",
        "password: string, secret: bool, token: str | None = None, api_key: str = Field(...)",
        "the password must have 8 characters and the key is under the mat",
        "mysql -u root -p; docker login -u ann -p $PASSWORD; git log -p main",
        '{"name": "max_token", "value": "4096"}, {"name": "city", "value": "Paris"}',
        '"nextPageToken": "9f86d081884c7d659a2feaa0c55ad015", "page_token": "9f86d081884c7d659a2feaa0c55ad015"',
        "cursor_token=9f86d081884c7d659a2feaa0c55ad015, cacheKey: 9f86d081884c7d659a2feaa0c55ad015",
        "| token | cost |, key, value, token,getUserAuthenticationTokenFromRequest",
        "- name: OPENAI_API_KEY\n  valueFrom:\n    secretKeyRef: x\n- name: api_key\n  value: $(API_KEY)",
    ],
)
def test_a_text_that_only_looks_like_a_secret_is_unchanged(text: str) -> None:
    """Numbers, ids, schemas, placeholders and prose."""
    assert text == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"AZURE_OPENAI_API_KEY={HEX32}", HEX32),
        (f"openai.api_key = '{HEX32}'", HEX32),
        ('DB_PASSWORD="correct-horse1"', "correct-horse1"),
        ("admin_password: Tr0ub4dor!3", "Tr0ub4dor!3"),
        (f'"awsSecretKey":"{HEX32}deadbeef"', f"{HEX32}deadbeef"),
        (f'os.environ["SERVICE_TOKEN"] = "{HEX32}"', HEX32),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        (f"authorization: Bearer {HEX32}", HEX32),
        (f"send Bearer {HEX32} please", HEX32),
        (f"https://api.example.com/v1?key={HEX32}&alt=sse", HEX32),
        ("postgres://ann:s3cret@db.example.com/app", "ann:s3cret"),
        ("curl -s -u 'ann:s3cr3t!' https://example.com", "ann:s3cr3t!"),
        ("curl -u 'd2LkV78z:' https://example.com", "d2LkV78z:"),
        ('curl -H "X-Auth-Key: abc12345" https://example.com', "abc12345"),
        (
            "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nP2/56wAAAi4AAAA3\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
            None,
        ),
        ('{"password": "x"}', "x"),
        ('{\\"client_secret\\": \\"a b\\"}', "a b"),
        ("{'apiKey': 'short'}", "short"),
        ("my SSN is 078051121", "078051121"),
        ("call me on 4155550132", "4155550132"),
        ("card 501864667909", "501864667909"),
    ],
)
def test_a_secret_is_recognised_by_its_context(text: str, secret: str | None) -> None:
    """Names, headers, URLs and the words before a number."""
    assert text.replace(secret or text, REDACTED) == REDACTOR.redact_text(text)


def test_an_encoded_key_and_an_encoded_token_are_found() -> None:
    """Environment variables often hold a private key or a JWT in base64."""
    from base64 import b64encode

    for inner in (pem(SOURCE), jwt(SOURCE)):
        secret = b64encode(inner.encode()).decode()

        assert f"value: {REDACTED}" == REDACTOR.redact_text(f"value: {secret}")


@pytest.mark.parametrize(
    "mark", ["AzFu", "AzSe", "AZDO", "ACDb", "+ASt", "+AQE", "/LTAI", "+EAAA", "_a-sk-", "-b_live_"]
)
def test_base64_that_holds_the_mark_of_a_key_by_chance_is_unchanged(mark: str) -> None:
    """An image or a signature is long, and every few letters occur in it."""
    text = f'"data": "{draw(SOURCE, 400)}{mark}{draw(SOURCE, 400)}"'

    assert text == REDACTOR.redact_text(text)


def test_a_truncated_key_is_redacted() -> None:
    """As in a stream that stopped inside a private key."""
    cut = pem(SOURCE)[:150]

    assert f"here: {REDACTED}" == REDACTOR.redact_text(f"here: {cut}")


@pytest.mark.parametrize("before", ["password=", "API_KEY: ", "Authorization: Bearer ", "Bearer ", "https://h/?key="])
def test_a_long_secret_is_redacted_to_its_end(before: str) -> None:
    """The expression that finds it is bounded; the redaction is not."""
    for length in (900, 1023, 1024, 1025, 5_000):
        assert f"{before}{REDACTED} ok" == REDACTOR.redact_text(f"{before}{draw(SOURCE, length)} ok")


def test_a_card_number_may_have_thirteen_to_nineteen_digits() -> None:
    """With and without groups."""
    for prefix, length in [("4", 13), ("305", 14), ("34", 15), ("51", 16), ("4", 19), ("6011", 16)]:
        assert [REDACTED] * 3 == [REDACTOR.redact_text(luhn(SOURCE, prefix, length)) for _ in range(3)]


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_redacting_twice_changes_nothing(kind: str) -> None:
    redacted = REDACTOR.redact_text(f"first {SECRETS[kind](SOURCE)}, then password = '{draw(SOURCE, 20)}'")

    assert redacted == REDACTOR.redact_text(redacted)


HOSTILE = [
    "sk-", " sk-aaaaaaaaaaaaaaaa", "-eyJaaaaaaaa", " eyJhbGciOiJI.", "-----BEGIN PRIVATE KEY-----", "a@b.", "a@b.c",
    "://a:b@", "4111-", "4111111111111111 ", "password=", 'secret="', "authorization: ", "bearer aaaaaaaaaaaa ",
    '"password":"', '\\"password\\":\\"', '"password":"\\"', "\\", "curl -u a:", "LS0tLS1CRUdJTi", "JQQJ99A", "\0",
    "<password>", "<password a", ' password="', 'name="token" ', "--token ", "a_live_aaaaaaaaaaaaaaaaaaaa",
    " hvs.aaaaaaaaaaaaaaaaaaaaaaaa", "0tLS0tQkVHSU4g", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "mysql -a -p",
    "Pwd=aaaaaa;",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_work_on_hostile_text_is_linear(piece: str) -> None:
    """Four times the text is about four times the work, never sixteen. RE2 itself is linear by construction."""

    def work(size: int) -> int:
        text = piece * (size // len(piece))
        return count_lines(lambda: REDACTOR.find_secrets(text))

    work(1_000)

    size = 5_000 if RunLength.is_short else 10_000
    assert work(4 * size) < 5 * work(size) + size // 10


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["password=", "token=a", "key=", "--a-token=", "authorization", '"password":"'])
def test_a_name_repeated_without_end_costs_little_each_time(piece: str) -> None:
    """Each begins a value that all others follow. However long that is, its bytes are not walked over in Python."""
    count_lines(lambda: REDACTOR.find_secrets(piece * 1_000))

    works = [count_lines(partial(REDACTOR.find_secrets, piece * times)) for times in (500, 1_000, 2_000)]

    assert all(work < 150 * times for work, times in zip(works, (500, 1_000, 2_000), strict=True)), works
    assert works[2] < 2.2 * works[1] < 4.84 * works[0]


@pytest.mark.parametrize("prefix", ["hf_", "ghp_", "npm_"])
def test_a_prefix_inside_base64_for_urls_is_no_key(prefix: str) -> None:
    """It stands there by chance, after a `-` of the run; after words that `-` joins it is one."""
    token = prefix + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzAbC"
    run = "Q7bZ4kR2mN8vX1cL5jH9gF3dS6aP0oIuYtEw"

    assert [] == REDACTOR.find_secrets(f"{run}-{token}-{run}")
    assert [] != REDACTOR.find_secrets(f"the-token-of-the-hugging-face-hub-{token}")


def test_every_kind_of_vendor_key_names_its_source() -> None:
    """What was not read anywhere says so."""
    assert SOURCES == {row.source for row in VENDOR_KEYS}


@pytest.mark.parametrize(
    "text",
    ["up_toDateConfigurationOfTheServiceRegistry", "vcp_connection_pool_settings_of_release_2024",
     "cfut_directory_of_the_clusterfutures_2024_release", "BSACertificationProgrammeReview2024"],
)  # fmt: skip
def test_a_name_that_begins_like_a_key_is_unchanged(text: str) -> None:
    """Short prefixes are also the start of ordinary names."""
    assert [] == REDACTOR.find_secrets(f"see {text}, please")


def test_an_embedding_holds_nothing_to_look_at() -> None:
    """Its numbers cost one scan of google-re2, however many they are."""
    numbers = ",".join(f"-0.{number}205046050250530" for number in range(10, 1_010))
    REDACTOR.find_secrets(numbers)

    assert count_lines(lambda: REDACTOR.find_secrets(numbers)) < 100
