"""Whether an answer is a refusal, and which sign shows it.

In: one choice of an answer. Out: the sign in words, or "". Never: judges whether the refusal is right.

There are three signs, in this order: the provider's `refusal` field, a finish reason, and a phrase near the
beginning of the text. The phrases are few, English and listed below. A refusal in other words is not found, and is
reported as a change of wording.
"""

from __future__ import annotations

import re

from traceforge.compare.compared_call import ComparedChoice

FINISH_REASONS = frozenset({"content_filter", "refusal", "safety", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST"})
BEGINNING_CHARS = 200  # A refusal comes first; the same words further down are part of an answer.

_VERBS = (
    "answer|assist|comply|complete|continue|create|discuss|do that|engage|fulfil|fulfill|generate|give|help"
    "|participate|produce|provide|respond|share|support|write"
)
PHRASES = (
    rf"I (?:can't|cannot|can not|won't|will not|am unable to|am not able to|must decline to) (?:{_VERBS})\b",
    rf"I'm (?:unable|not able|not allowed) to (?:{_VERBS})\b",
    r"I (?:must|have to) (?:decline|refuse)\b",
    r"I'm sorry, but I (?:can't|cannot|can not|won't|am unable|am not able)\b",
    r"(?:goes )?against my (?:guidelines|programming|policy|policies)\b",
    r"As an AI(?: language model| assistant)?, I (?:can't|cannot|don't|do not|am unable|am not able)\b",
)
_PHRASE = re.compile("|".join(rf"(?<!\w)(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)


def find_refusal_sign(choice: ComparedChoice) -> str:
    """What shows that this is a refusal; "" if nothing does."""
    if choice.refusal:
        return "the refusal field is set"
    if isinstance(choice.finish_reason, str) and choice.finish_reason in FINISH_REASONS:
        return f"finish_reason is {choice.finish_reason}"
    match = _PHRASE.search(choice.text[:BEGINNING_CHARS].replace("’", "'"))
    return f"the text begins with “{match[0]}”" if match else ""
