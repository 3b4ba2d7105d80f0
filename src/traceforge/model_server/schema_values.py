"""Values that fit a JSON schema: the arguments of a tool, or an answer that must be JSON.

Words of the conversation are used where they fit (an order number, a value of an enum); everything else follows from
the seed. Supports the part of JSON Schema that tools are described with, in OpenAI's and Gemini's spelling.
"""

from __future__ import annotations

import re
from typing import Any

from traceforge.model_server.seeded_choice import SeededChoices

DEPTH_MAX = 8  # A schema that refers to itself is cut off here.
VALUES_MAX = 10_000  # Of one answer: a schema may ask for a thousand million, also by lists inside of lists.
LENGTH_MAX = 10_000  # Of a text, and of what a count in a pattern repeats.
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour", "iris", "juniper", "kelp", "lark")
FORMATS = {
    "date": "2026-01-15", "date-time": "2026-01-15T09:30:00Z", "time": "09:30:00Z", "email": "someone@example.com",
    "uri": "https://example.com/", "uuid": "3f2b8c1e-5d4a-4e6f-9a7b-1c2d3e4f5a6b",
}  # fmt: skip
CODE = re.compile(r"\b[A-Z][A-Z0-9]*-[A-Z0-9-]*\d\b")  # An id such as A-1001.


def make_schema_value(schema: dict[str, Any], choices: SeededChoices, conversation: str) -> Any:
    """A value that fits `schema`."""
    return _SchemaValueMaker(schema, choices, conversation).value(schema, "", 0)


class _SchemaValueMaker:
    def __init__(self, root: dict[str, Any], choices: SeededChoices, conversation: str) -> None:
        self._root, self._choices, self._conversation = root, choices, conversation
        self._values_made = 0

    def value(self, schema: Any, name: str, depth: int) -> Any:
        if not isinstance(schema, dict):
            return None
        self._values_made += 1
        if self._values_made > VALUES_MAX:
            raise ValueError(f"the schema asks for more than {VALUES_MAX} values")
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._last_mentioned(schema["enum"]) or self._choices.choose(schema["enum"])
        kind = self._kind(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            count = max(schema.get("minItems", 1), 0) if depth < DEPTH_MAX else schema.get("minItems", 0)
            return [self.value(schema.get("items", {"type": "string"}), name, depth + 1) for _ in range(count)]
        if kind == "string":
            return self._string(schema, name)
        if kind in ("integer", "number"):
            return self._number(schema, kind)
        return self._choices.choose([True, False]) if kind == "boolean" else None

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema without `$ref`, `allOf`, `anyOf` and `oneOf`."""
        for _ in range(DEPTH_MAX):
            if "$ref" in schema:
                target: Any = self._root
                for step in schema["$ref"].lstrip("#/").split("/"):
                    target = target.get(step, {}) if step else target
                schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
            elif "allOf" in schema:
                merged = {key: value for key, value in schema.items() if key != "allOf"}
                for part in schema["allOf"]:
                    merged |= part
                schema = merged
            elif options := schema.get("anyOf") or schema.get("oneOf"):
                common = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
                schema = common | next((option for option in options if option.get("type") != "null"), options[0])
            else:
                break
        return schema

    @staticmethod
    def _kind(schema: dict[str, Any]) -> str:
        kind = schema.get("type") or ("object" if "properties" in schema else "string")
        kinds = [kind] if isinstance(kind, str) else [name for name in kind if name != "null"] or ["null"]
        return str(kinds[0]).lower()

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required")
        names = sorted(properties)
        if depth >= DEPTH_MAX:
            names = [name for name in names if name in (required or ())]
        return {name: self.value(properties[name], name, depth + 1) for name in names}

    def _string(self, schema: dict[str, Any], name: str) -> str:
        if pattern := schema.get("pattern"):
            matches = re.finditer(pattern.removeprefix("^").removesuffix("$"), self._conversation)
            last = next((match[0] for match in reversed(list(matches))), "")
            return last or _make_match(pattern, self._choices)
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        codes = CODE.findall(self._conversation)
        if codes and re.search(r"(^|_)(id|number|code|key)$", name):
            return str(codes[-1])
        text = f"{self._choices.choose(WORDS)} {self._choices.choose(WORDS)}"
        return text.ljust(_check_length(schema.get("minLength", 0)), "x")[: schema.get("maxLength")]

    def _number(self, schema: dict[str, Any], kind: str) -> int | float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 100) - ("exclusiveMaximum" in schema))
        step = schema.get("multipleOf", 1)
        low, high = -(-low // step), high // step
        number = self._choices.integer(int(low), max(int(low), int(high))) * step
        return int(number) if kind == "integer" else number

    def _last_mentioned(self, options: list[Any]) -> Any:
        """The option that the conversation mentions last, or None."""
        text = self._conversation.lower()
        positions = {option: text.rfind(option.lower()) for option in options if isinstance(option, str)}
        last = max(positions, key=lambda option: positions[option], default=None)
        return last if last is not None and positions[last] >= 0 else None


def _check_length(length: int) -> int:
    if length > LENGTH_MAX:
        raise ValueError(f"the schema asks for a text of more than {LENGTH_MAX} characters")
    return length


def _make_match(pattern: str, choices: SeededChoices) -> str:
    """A text for the plain patterns of ids: literals, classes, `\\d`, `\\w` and counts."""
    characters = []
    for token in re.finditer(r"(\\[dw]|\[[^\]]+\]|\\?[^\\{}^$()|+*?])(?:\{(\d+)[^}]*\})?", pattern):
        characters += [_make_character(token[1], choices) for _ in range(_check_length(int(token[2] or 1)))]
    return "".join(characters)


def _make_character(token: str, choices: SeededChoices) -> str:
    if token == r"\d":
        return str(choices.integer(0, 9))
    if token == r"\w":
        return choices.choose("abcdefghijkmnpqrstuvwxyz")
    if token.startswith("["):
        ranges = re.findall(r"(.)-(.)", token[1:-1])
        low, high = ranges[0] if ranges else (token[1], token[1])
        return chr(choices.integer(ord(low), ord(high)))
    return token[-1]
