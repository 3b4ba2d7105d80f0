"""JSON objects that hold a name and its value: `{"name": "OPENAI_API_KEY", "value": "…"}`.

In: the members of an object. Out: its names, and the key of its value. Never: looks at another object.
"""

from __future__ import annotations

from typing import Any

from traceforge.redact.secret_finder import is_plain_value
from traceforge.redact.secret_names import (
    PAIR_NAME_KEYS,
    PAIR_SECRET_TYPES,
    PAIR_TYPE_KEYS,
    PAIR_VALUE_KEYS,
    is_secret_header_name,
)

NAME_LENGTH_MAX = 128


def find_named_secret(members: dict[str, Any]) -> str | None:
    """The key of the secret in an object of the form `{"name": "OPENAI_API_KEY", "value": "…"}`."""
    for value_key in PAIR_VALUE_KEYS:
        if value_key in members and type(value := members[value_key]) is str and not is_plain_value(value):
            if any(map(is_secret_header_name, list_pair_names(members))):
                return value_key
            if any(str(members.get(key)).lower() in PAIR_SECRET_TYPES for key in PAIR_TYPE_KEYS):
                return value_key
    return None


def list_pair_names(members: dict[str, Any]) -> list[str]:
    """The names in an object of a name and its value."""
    names = (name for key in PAIR_NAME_KEYS if type(name := members.get(key)) is str)
    return [name for name in names if len(name) <= NAME_LENGTH_MAX]


def find_value_key(members: dict[str, Any]) -> str | None:
    """The key of the text in an object of a name and its value."""
    return next((key for key in PAIR_VALUE_KEYS if type(value := members.get(key)) is str and value), None)
