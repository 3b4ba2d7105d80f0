"""YAML of a cassette.

In: the bytes of a YAML file. Out: lists, dictionaries and scalars, as `yaml.safe_load` builds them. Never: creates an
object that a tag names; a cassette may name a few, and then has what they hold.
"""

from __future__ import annotations

from typing import Any

from traceforge.yaml_reader import InvalidYaml, OpenCollection, YamlBuilder, invalid_yaml, require_yaml

try:
    import yaml
except ImportError:  # The extra `vcr` is not installed: JSON cassettes can still be read.
    yaml = None  # type: ignore[assignment]

__all__ = ["InvalidYaml", "load_yaml"]

EXPANDED_BYTES_MAX = 128 << 20
NUMBER_CHARACTERS_MAX = 1000  # Python needs quadratic time for a long one.

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({f"{_TAG}str", f"{_TAG}python/unicode", f"{_TAG}python/str"})
_SCALAR_TAGS = frozenset(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "binary", "timestamp"))
_NUMBER_TAGS = frozenset({f"{_TAG}int", f"{_TAG}float"})
_COLLECTION_TAGS = frozenset({None, "!", f"{_TAG}map", f"{_TAG}seq", f"{_TAG}python/tuple"})
_STREAM_TAGS = frozenset(f"{_TAG}python/object/{kind}:_io.BytesIO" for kind in ("new", "apply"))


def load_yaml(data: bytes) -> object:
    """Read one YAML document.

    Raises:
        MissingExtra: PyYAML is not installed.
        InvalidYaml: it is not YAML, or has a tag, a merge key, a depth or a size that a cassette does not have.
    """
    require_yaml("YAML cassettes cannot be read here: PyYAML is not installed", "vcr")
    return CassetteBuilder().load(data)


class CassetteBuilder(YamlBuilder):
    """Builds what recorders write: YAML 1.1 with some tags of Python."""

    expanded_bytes_max = EXPANDED_BYTES_MAX

    def __init__(self) -> None:
        super().__init__()
        self._scalars = yaml.SafeLoader("")  # resolves and reads scalars

    def check_collection(self, event: Any) -> None:  # noqa: ANN401
        if event.tag not in _COLLECTION_TAGS and event.tag not in _STREAM_TAGS:
            raise invalid_yaml("a tag that no cassette needs", event)

    def close_collection(self, collection: OpenCollection) -> object:
        """As in JSON, the last of two equal keys wins."""
        value: object = collection.items
        if not collection.is_sequence:
            try:
                value = dict(zip(collection.items[::2], collection.items[1::2], strict=True))
            except TypeError:
                raise invalid_yaml("a key that is no scalar", collection.start) from None
        return _stream_content(value) if collection.start.tag in _STREAM_TAGS else value

    def read_scalar(self, event: Any) -> object:  # noqa: ANN401
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._scalars.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
        if tag in _TEXT_TAGS:
            return event.value
        if tag == f"{_TAG}merge":
            raise invalid_yaml("a merge key, which no cassette needs", event)
        if tag not in _SCALAR_TAGS:
            raise invalid_yaml("a tag that no cassette needs", event)
        if tag in _NUMBER_TAGS and len(event.value) > NUMBER_CHARACTERS_MAX:
            raise invalid_yaml(f"a number of more than {NUMBER_CHARACTERS_MAX} characters", event)
        try:
            return self._scalars.yaml_constructors[tag](self._scalars, yaml.ScalarNode(tag, event.value))
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, OverflowError):
            raise invalid_yaml(f"not a value of the tag {tag.removeprefix(_TAG)}", event) from None


def _stream_content(value: object) -> object:
    """The bytes of a `BytesIO` that was dumped as an object: the first item of its state or arguments."""
    items = value.get("state", value.get("args", [])) if isinstance(value, dict) else value
    return items[0] if isinstance(items, list) and items else b""
