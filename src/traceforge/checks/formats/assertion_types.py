"""The types of the assertions in a check file: one closed union, told apart by the field `type`.

In: nothing. Out: one struct for each type. Never: evaluates an assertion; `checks/assertions` does.

docs/reference/format-check.md has one heading for each type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from traceforge.shape import NonEmptyText, NonNegative, OpenObject, WholeNumber

Texts = NonEmptyText | Annotated[list[NonEmptyText], Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
JsonSource = Literal["text", "block"]  # the whole text of the answer, or its only fenced block


class AssertionType(Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What all assertions have. `name` is shown in reports, in place of the type."""

    name: NonEmptyText | UnsetType = UNSET


class ExactAssertion(AssertionType, tag="exact", frozen=True, kw_only=True):
    """The text is this one, character by character."""

    value: str
    ignore_case: bool = False
    trim: bool = False


class ContainsAssertion(AssertionType, tag="contains", frozen=True, kw_only=True):
    """The text contains each of these texts."""

    value: Texts
    ignore_case: bool = False


class NotContainsAssertion(AssertionType, tag="not_contains", frozen=True, kw_only=True):
    """The text contains none of these texts."""

    value: Texts
    ignore_case: bool = False


class RegexAssertion(AssertionType, tag="regex", frozen=True, kw_only=True):
    """A google-re2 expression matches in the text, or with `whole` all of it."""

    pattern: NonEmptyText
    ignore_case: bool = False
    whole: bool = False


class JsonPathAssertion(AssertionType, tag="json_path", frozen=True, kw_only=True):
    """A JSONPath (RFC 9535) selects values in the JSON of the text.

    Without `value` and `count`, it selects at least one. With `value`, each selected value is equal to it.
    """

    path: NonEmptyText
    value: Any | UnsetType = UNSET
    count: WholeNumber | UnsetType = UNSET
    source: JsonSource = "text"


class JsonSchemaAssertion(AssertionType, tag="json_schema", frozen=True, kw_only=True):
    """The JSON of the text is valid under a JSON Schema (draft 2020-12, if it names no other)."""

    schema: OpenObject | bool
    source: JsonSource = "text"


class JsonSubsetAssertion(AssertionType, tag="json_subset", frozen=True, kw_only=True):
    """The JSON of the text has everything that `value` has: members of objects, items of arrays in their order."""

    value: OpenObject | list[Any]
    source: JsonSource = "text"


class FuzzyAssertion(AssertionType, tag="fuzzy", frozen=True, kw_only=True):
    """The text is like this one, from 0 (nothing in common) to 1 (equal)."""

    value: NonEmptyText
    at_least: Share = 0.8
    method: Literal["whole", "part", "words"] = "whole"
    ignore_case: bool = False


class SemanticAssertion(AssertionType, tag="semantic", frozen=True, kw_only=True):
    """The text means about what this one means, from 0 (nothing in common) to 1, by a model on this machine."""

    value: NonEmptyText
    at_least: Share = 0.7


class LengthAssertion(AssertionType, tag="length", frozen=True, kw_only=True):
    """The text has so many characters, words or lines."""

    min: WholeNumber | UnsetType = UNSET
    max: WholeNumber | UnsetType = UNSET
    unit: Literal["characters", "words", "lines"] = "characters"


class LatencyAssertion(AssertionType, tag="latency", frozen=True, kw_only=True):
    """The answer took at most so many milliseconds."""

    max_ms: NonNegative


class CostAssertion(AssertionType, tag="cost", frozen=True, kw_only=True):
    """The answer cost at most so much, by the prices in `models` of the configuration."""

    max: NonNegative


class FinishReasonAssertion(AssertionType, tag="finish_reason", frozen=True, kw_only=True):
    """The model stopped for one of these reasons, in the words of the unified view: stop, length, tool_calls, …"""

    value: Texts


class RefusalAssertion(AssertionType, tag="refusal", frozen=True, kw_only=True):
    """The model refused to answer."""


class NoRefusalAssertion(AssertionType, tag="no_refusal", frozen=True, kw_only=True):
    """The model did not refuse to answer."""


class ToolCalledAssertion(AssertionType, tag="tool_called", frozen=True, kw_only=True):
    """The model called a tool, with arguments that have these members or are valid under a JSON Schema.

    `count` is the number of such calls, at least one without it. `after` is another tool that was called before.
    """

    tool: NonEmptyText
    arguments: OpenObject | UnsetType = UNSET
    exact: bool = False
    schema: OpenObject | bool | UnsetType = UNSET
    count: WholeNumber | UnsetType = UNSET
    after: NonEmptyText | UnsetType = UNSET


class NoPiiAssertion(AssertionType, tag="no_pii", frozen=True, kw_only=True):
    """The redactor of the project finds no secret and no personal data in the text and the arguments of tools."""


class LanguageAssertion(AssertionType, tag="language", frozen=True, kw_only=True):
    """The text is in this language, by its script and its most common words."""

    value: Annotated[str, Meta(pattern=r"^[a-z]{2}$(?!\n)", description="a code of two letters, such as en")]


class TokenCountAssertion(AssertionType, tag="token_count", frozen=True, kw_only=True):
    """The text has so many tokens: about, by a rule that needs no vocabulary, or as the provider counted."""

    min: WholeNumber | UnsetType = UNSET
    max: WholeNumber | UnsetType = UNSET
    source: Literal["estimate", "provider"] = "estimate"


class PythonAssertion(AssertionType, tag="python", frozen=True, kw_only=True):
    """A function of the project returns True for the answer."""

    function: Annotated[
        str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$(?!\n)", description="written as package.module:function")
    ]
    arguments: OpenObject = field(default_factory=dict)


class JudgeAssertion(AssertionType, tag="judge", frozen=True, kw_only=True):
    """A pinned model says that the answer fulfils a rubric."""

    rubric: NonEmptyText
    provider: Literal["openai", "anthropic", "gemini", "ollama"]
    model: NonEmptyText
    parameters: OpenObject = field(default_factory=dict)


class AllOfAssertion(AssertionType, tag="all_of", frozen=True, kw_only=True):
    """Each of these assertions holds."""

    assertions: Annotated[list[AnyAssertion], Meta(min_length=1)]


class AnyOfAssertion(AssertionType, tag="any_of", frozen=True, kw_only=True):
    """At least one of these assertions holds."""

    assertions: Annotated[list[AnyAssertion], Meta(min_length=1)]


class NotAssertion(AssertionType, tag="not", frozen=True, kw_only=True):
    """This assertion does not hold."""

    assertion: AnyAssertion


AnyAssertion: TypeAlias = (
    ExactAssertion
    | ContainsAssertion
    | NotContainsAssertion
    | RegexAssertion
    | JsonPathAssertion
    | JsonSchemaAssertion
    | JsonSubsetAssertion
    | FuzzyAssertion
    | SemanticAssertion
    | LengthAssertion
    | LatencyAssertion
    | CostAssertion
    | FinishReasonAssertion
    | RefusalAssertion
    | NoRefusalAssertion
    | ToolCalledAssertion
    | NoPiiAssertion
    | LanguageAssertion
    | TokenCountAssertion
    | PythonAssertion
    | JudgeAssertion
    | AllOfAssertion
    | AnyOfAssertion
    | NotAssertion
)

ASSERTION_TYPES: dict[str, type[AssertionType]] = {
    str(kind.__struct_config__.tag): kind for kind in AnyAssertion.__args__
}


class Fixtures(Struct, forbid_unknown_fields=True, frozen=True):
    """What surrounds a live run: variables, and commands as lists of arguments, never a line for a shell."""

    env: dict[str, str] = field(default_factory=dict)
    setup: list[Annotated[list[NonEmptyText], Meta(min_length=1)]] = field(default_factory=list)
    teardown: list[Annotated[list[NonEmptyText], Meta(min_length=1)]] = field(default_factory=list)


def assertion_tag(assertion: AssertionType) -> str:
    """The `type` of an assertion."""
    return str(type(assertion).__struct_config__.tag)


def assertion_label(assertion: AssertionType) -> str:
    """The name of an assertion, or its type."""
    return assertion_tag(assertion) if assertion.name is UNSET else assertion.name
