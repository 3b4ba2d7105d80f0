"""About how many tokens a text has, without the vocabulary of a model: nothing is downloaded.

In: a text. Out: a number that is the same on every machine. Never: the count of a provider, which has its own
tokenizer; that is in the token usage of an answer.

The text is divided as byte-pair tokenizers divide it before they merge: words with the space before them, up to
three digits, runs of punctuation, runs of white space. A word of up to eight ASCII letters counts as one token, and
every five further letters as one more; other letters count half a token each, and those of Chinese, Japanese and
Korean one each.
"""

from __future__ import annotations

import math
import re

WORD_LETTERS = 8
FURTHER_LETTERS = 5

_PIECE = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?[^\s\w]{1,3}|_+|\s+(?!\S)|\s")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads or writes for this text."""
    return sum(map(_count_piece, _PIECE.findall(text)))


def _count_piece(piece: str) -> int:
    word = piece.strip()
    if not word.isalpha():
        return 1
    if word.isascii():
        return 1 + math.ceil(max(0, len(word) - WORD_LETTERS) / FURTHER_LETTERS)
    wide = len(_WIDE.findall(word))
    return max(1, wide + math.ceil((len(word) - wide) / 2))
