"""Secrets below a name that stands once: columns of tables, INSERT of SQL, manifests of Kubernetes."""

from __future__ import annotations

import json
import re

import pytest

from traceforge.redact.redactor import Redactor
from traceforge.redact.secret_columns import DETECTORS

REDACTOR = Redactor()
FIRST, SECOND = "Tr0ub4dor&3x", "hk3Jd82kLmQ9zXw1Pq7RtYv4"


@pytest.mark.parametrize(
    "text",
    [
        f"user,password,age\nann,{FIRST},4\nbob,{SECOND},5\n",
        f'"user","secret"\r\n"ann","{FIRST}"\r\n"bob","{SECOND}"\r\n',
        f"user\tdb_password\nann\t{FIRST}\nbob\t{SECOND}",
        f"user;passwd;city\nann;{FIRST};Rome\nbob;{SECOND};Oslo",
        f"| user | password |\n|---|---|\n| ann | {FIRST} |\n| bob | {SECOND} |",
        f"user,password,api_key\nann,{FIRST},{SECOND}\n",
        f"INSERT INTO users (name, password) VALUES ('ann', '{FIRST}'), ('bob (x)', '{SECOND}');",
        f"kind: Secret\nmetadata:\n  name: db\nstringData:\n  dsn: {FIRST}\n  other: '{SECOND}'\n---\n",
        f"stringData:\n  dsn: {FIRST}\n  other: {SECOND}\nkind: Secret\n",
    ],
)
def test_every_value_below_a_secret_name_is_redacted(text: str) -> None:
    """As a body, in a prompt, in several texts of one body; redacting twice changes nothing."""
    body = json.dumps({"messages": [{"content": "name, age\nann, 4"}, {"content": f"Look:\n{text}"}]})
    for data, media_type in ((text, "text/csv"), (f"Here it is:\n{text}", "text/plain"), (body, "application/json")):
        cleaned = REDACTOR.redact_body(data.encode(), media_type).value

        assert b"[REDACTED]" in cleaned
        assert not any(secret.encode() in cleaned for secret in (FIRST, SECOND))
        assert cleaned == REDACTOR.redact_body(cleaned, media_type).value


@pytest.mark.parametrize(
    "text",
    [
        "| field | password |\n|---|---|\n| type | string |\n| length | eight |",
        "token,logprob\nhello,-0.1\n world,-2.5\n",
        "def login(user, password, x):\n    return check(user, base64url22, x)",
        "name, password, city\nno table follows 4be199a277c0\n",
        "key,value\na1b2c3d4e5,42\n",
        "user,password\nann,<password>\nbob,YOUR_PASSWORD\n",
        "kind: ConfigMap\ndata:\n  mode: v1beta2x\n",
        "kind: Secret\ndata:\n  mode: string\n---\nkind: Pod\nspec:\n  image: app1.2.3-rc4\n",
        "INSERT INTO users (name, city) VALUES ('ann', 'Tr0mso&3x');",
    ],
)
def test_a_table_without_secrets_stays(text: str) -> None:
    """A description of fields, tokens of a model, code, placeholders, and manifests of another kind."""
    assert text == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    "piece",
    ["password,x\n", "password,", "INSERT INTO t (password) VALUES ('a'),", "kind: Secret\n", "a|secret|\n|\n"],
)
def test_a_name_that_repeats_is_read_a_bounded_number_of_times(piece: str) -> None:
    """What the detectors read, summed over all anchors, grows with the text and not with its square."""
    text = (piece * 20_000).encode()
    read = 0
    for detector in DETECTORS:
        place, anchor = 0, detector.anchor
        assert detector.locate_all is not None
        for start in _anchors(anchor, text):
            if start >= place:
                place = detector.locate_all(text, start, start + 1)[1]
                read += max(place - start, 1)

    assert read <= 4 * len(text)


def _anchors(anchor: bytes, text: bytes) -> list[int]:
    return [match.start() for match in re.finditer(anchor, text)]
