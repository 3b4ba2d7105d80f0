"""How we write a place inside a JSON document: `$.snapshots[0].request["top-p"]`."""

from __future__ import annotations


def json_path(parent: str, key: str | int) -> str:
    """Name the child `key` of `parent`."""
    if isinstance(key, int):
        return f"{parent}[{key}]"
    if key.isascii() and key.isidentifier():
        return f"{parent}.{key}"
    from json.encoder import encode_basestring_ascii

    return f"{parent}[{encode_basestring_ascii(key)}]"
