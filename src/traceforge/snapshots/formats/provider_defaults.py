"""The values that a provider fills in for fields that a request leaves out, as the providers document them.

In: a model and its provider. Out: the documented default, or 0 where there is none. Never: decides what is compared:
a record lists these fields as declared.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

# A default temperature, and the limit of an answer's tokens, which is the default of the limit. The first entry that
# matches the model counts.
_TEMPERATURES = (("gpt-*", 1), ("chatgpt-*", 1), ("o[0-9]*", 1), ("claude-*", 1), ("gemini-*", 1))
_TOKEN_LIMITS = (
    ("gpt-4o*", 16_384), ("gpt-4.1*", 32_768), ("gpt-4-turbo*", 4_096), ("gpt-3.5-turbo*", 4_096),
    ("gpt-5*", 128_000), ("o1*", 100_000), ("o3*", 100_000), ("o4-mini*", 100_000),
    ("gemini-1.5*", 8_192), ("gemini-2.0*", 8_192), ("gemini-2.5*", 65_536), ("gemini-3*", 65_536),
)  # fmt: skip
_OF_OLLAMA = {"temperature": 0.8, "max_tokens": -1}  # for every model; -1 is unlimited
_BY_MODEL = {"temperature": _TEMPERATURES, "max_tokens": _TOKEN_LIMITS}


def find_default(field: str, model: str, provider: str) -> float:
    """The documented default of `temperature` or `max_tokens`; 0 where there is none.

    The name of a model may have a prefix, such as `openai/gpt-4o` or `models/gemini-2.5-flash`.
    """
    if provider == "ollama":
        return _OF_OLLAMA[field]
    name = model.rpartition("/")[2]
    return next((value for pattern, value in _BY_MODEL[field] if fnmatchcase(name, pattern)), 0)
