"""The language of a text, by its script and its most common words: nothing is downloaded.

In: a text. Out: the code of a language (ISO 639-1), or "" where it is not clear. Never: guesses: a text without
common words of one language, or with as many of another, has none.

A script that one language uses decides alone. In Latin letters, the words below are counted: articles, pronouns,
prepositions and conjunctions, which make up a third of most texts.
"""

from __future__ import annotations

import re
from collections import Counter

WORDS_MIN = 2  # common words of a language that a text must have
LEAD_MIN = 1.25  # how many times as many as of the language with the next most
SCRIPT_SHARE_MIN = 0.3  # of the letters; names in other scripts occur in every language

_SCRIPTS = (
    ("ja", "\u3040-\u30ff"),  # before Chinese: Japanese also has its characters
    ("ko", "\uac00-\ud7af\u1100-\u11ff"),
    ("zh", "\u4e00-\u9fff\u3400-\u4dbf"),
    ("th", "\u0e00-\u0e7f"),
    ("he", "\u0590-\u05ff"),
    ("el", "\u0370-\u03ff"),
    ("hi", "\u0900-\u097f"),
)
_WORDS = {
    "ar": "في من على إلى أن هذا هذه التي الذي كان لا ما مع هو هي عن كل قد بعد",
    "cs": "že se na je jsem jako ale aby jsou který která tak jeho také nebo když podle pro byl být",
    "da": "og det er ikke til som på med jeg den han hun har af der et vi kan skal blev",
    "de": "der die das und ist nicht ein eine ich sie mit auf für den dem des zu von wir auch sich es im bei wie",
    "en": "the and is of to in that it you for with this are was be on not have as at your can from we which",
    "es": "el la los las que de y en un una es por con para no se lo su del como más pero está muy",
    "fa": "که از این را در با است برای آن به یک می شود خود تا",
    "fi": "ja on ei se että oli hän mutta niin kuin ovat myös tai kun joka ole mukaan sekä",
    "fr": "le la les de des et est que qui dans un une pour pas vous je il nous sur avec ce du au plus sont",
    "hu": "és az egy hogy nem is van meg csak de ez mint már volt vagy kell",
    "it": "il lo la gli che di e è un una per non con del della sono si come anche più nel alla ma",
    "nl": "de het een en van is dat niet ik je op te zijn voor met die er aan ook maar als bij wordt",
    "no": "og det er ikke til som på med jeg den har av for vi kan skal ble også etter",
    "pl": "i w na się nie to jest że z do jak o ale po co tak za od przez jego już są",
    "pt": "o a os as que de e em um uma é para com não por do da se mais como mas são você",
    "ro": "și este în la cu nu că pe pentru din mai sunt care o un dar fost această",
    "ru": "и в не на я что он с это как по но из у за от так же для она бы был мы вы",
    "sv": "och det att är inte som på en jag för med den av till om har vi kan ett han skulle",
    "tr": "ve bir bu için ile de da ne çok ama gibi daha olarak değil var ben olan kadar",
    "uk": "і в не на я що він з це як по але із у за від так же для вона та був ми ви є",
    "vi": "và của là có không được cho một những với trong này đã các khi người để",
}
_COMMON_WORDS = {code: frozenset(words.split()) for code, words in _WORDS.items()}
LANGUAGES = tuple(sorted({*_WORDS, *(code for code, _ in _SCRIPTS)}))

_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str) -> str:
    """The language of a text; "" where it is not clear."""
    words = _WORD.findall(text.casefold())
    letters = sum(map(len, words))
    if not letters:
        return ""
    for code, ranges in _SCRIPTS:
        if sum(map(len, re.findall(f"[{ranges}]+", text))) / letters >= SCRIPT_SHARE_MIN:
            return code
    counts = Counter(
        {code: sum(word in common for word in words) for code, common in _COMMON_WORDS.items()}
    ).most_common(2)
    (code, most), (_, next_most) = counts
    return code if most >= WORDS_MIN and most >= LEAD_MIN * next_most else ""
