"""The options of every API: which shape the answer, which decide nothing here, and which are refused.

In: the body of a request. Out: an error where it asks for something that this server cannot answer as the API does.
Never: a known option that is read as something else. Every option counts for the words of the answer, because those
are computed from the whole request. A field that is in no table is left alone, as other servers of these APIs do.

    honoured   the form of the answer follows it
    ignored    an answer of the API may look the same without it: sampling, caching, accounts, tiers, hints
    refused    the answer would need what is not here: sound, pictures, likely tokens, hosted tools, stored state
"""

from __future__ import annotations

from typing import Any, NamedTuple

from traceforge.model_server.provider_io import BadRequest


class OptionRules(NamedTuple):
    """The options of one method; nested ones have their path, with dots."""

    honoured: frozenset[str]
    ignored: frozenset[str]
    refused: frozenset[str]


def _rules(honoured: str, ignored: str = "", refused: str = "") -> OptionRules:
    return OptionRules(frozenset(honoured.split()), frozenset(ignored.split()), frozenset(refused.split()))


CHAT = _rules(
    "messages model tools tool_choice response_format max_tokens max_completion_tokens n stop stream stream_options "
    "modalities logprobs",
    "frequency_penalty logit_bias metadata parallel_tool_calls prediction presence_penalty prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning_effort safety_identifier seed service_tier store "
    "temperature top_p user verbosity",
    "audio function_call functions moderation top_logprobs web_search_options",
)
COMPLETIONS = _rules(
    "model prompt max_tokens n stop stream stream_options",
    "best_of frequency_penalty logit_bias presence_penalty seed temperature top_p user",
    "echo logprobs suffix",
)
EMBEDDINGS = _rules("input model dimensions encoding_format", "user")
RESPONSES = _rules(
    "input instructions model tools tool_choice text max_output_tokens stream metadata parallel_tool_calls include "
    "truncation previous_response_id temperature top_p",
    "max_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier "
    "service_tier store stream_options user",
    "access_programs background context_management conversation image moderation prompt top_logprobs",
)
MESSAGES = _rules(
    "messages model system tools tool_choice max_tokens stop_sequences output_config output_format stream",
    "betas cache_control context_management diagnostics inference_geo metadata service_tier speed temperature "
    "thinking top_k top_p user_profile_id workspace_id",
    "compaction container fallback_credit_token fallbacks mcp_servers thread",
)
GEMINI = _rules(
    "contents systemInstruction tools toolConfig generationConfig",
    "safetySettings labels serviceTier store modelArmorConfig",
    "cachedContent",
)
GEMINI_CONFIG = _rules(
    "candidateCount maxOutputTokens stopSequences responseMimeType responseSchema responseJsonSchema "
    "responseModalities",
    "temperature topP topK presencePenalty frequencyPenalty seed mediaResolution thinkingConfig audioTimestamp "
    "enableEnhancedCivicAnswers routingConfig modelSelectionConfig",
    "responseLogprobs logprobs speechConfig imageConfig audioTranscriptionConfig continuationToken "
    "generationOutputConfig",
)
GEMINI_CALLING = _rules("mode allowedFunctionNames", "", "streamFunctionCallArguments")
OLLAMA_CHAT = _rules("model messages tools stream think format options", "keep_alive", "logprobs top_logprobs")
OLLAMA_GENERATE = _rules(
    "model prompt system stream think format options", "keep_alive raw template images",
    "context height logprobs steps suffix top_logprobs width",
)  # fmt: skip
OLLAMA_EMBED = _rules("model input dimensions", "keep_alive options truncate")


def refuse_options(values: dict[str, Any], rules: OptionRules) -> None:
    """Check the options of a request.

    Raises:
        BadRequest: it asks for something that is refused.
    """
    for name, value in values.items():
        if name in rules.refused and asks_for_something(value):
            raise BadRequest(f"`{name}` is not supported by this server.", param=name)


def asks_for_something(value: Any) -> bool:
    """Whether the value of an option turns something on; an empty object does, with its defaults."""
    return not (value is None or value is False or value in ("", []))


def read_count(value: Any, name: str, default: int | None, most: int = 1 << 31) -> int | None:
    """A number of answers or tokens.

    Raises:
        BadRequest: it is not a whole number, or out of range.
    """
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadRequest(f"Invalid value for `{name}`: a whole number from 1 to {most} is expected.", param=name)
    return value


def read_stops(value: Any, name: str = "stop", most: int | None = None) -> list[str]:
    """The texts at which an answer ends: one, or a list.

    Raises:
        BadRequest: it is something else, or there are more than `most`.
    """
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise BadRequest(f"Invalid value for `{name}`: a list of texts is expected.", param=name)
    if most is not None and len(stops) > most:
        raise BadRequest(f"Invalid value for `{name}`: at most {most} texts are allowed.", param=name)
    return stops


def check_temperature(value: Any, most: int) -> None:
    """Check how freely the API would sample.

    Raises:
        BadRequest: it is not a number from 0 to `most`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= most):
        raise BadRequest(
            f"Invalid value for `temperature`: a number from 0 to {most} is expected.", param="temperature"
        )


def read_choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """One of a few words.

    Raises:
        BadRequest: it is another one.
    """
    if value not in allowed:
        raise BadRequest(f"Invalid value for `{name}`: one of {', '.join(allowed)} is expected.", param=name)
    return str(value)


def check_tool_names(wanted: list[str], offered: list[str], name: str) -> None:
    """Check the tools that a choice names.

    Raises:
        BadRequest: one of them was not offered.
    """
    missing = [tool for tool in wanted if tool not in offered]
    if missing:
        raise BadRequest(f"`{name}` names the tool {missing[0]!r}, which is not in `tools`.", param=name)
