"""The numbers, dates, links and names in a text: what a reader would check first.

In: a text. Out: its facts, which one wrong character makes false. Never: understands the text, or looks anything up.

A *number* is digits with their sign, point, percent or currency; `1,000` is `1000`, `2.50` is `2.5`, `three` is `3`.
A *date* or time is digits joined by `-`, `/`, `.` or `:`; a *code* is letters and digits in one word (`A4`, `gpt4`).
A *link* begins with `http://` or `https://`. A *name* is a word with a capital letter that is not on the list of
common words. Every word at the beginning of a sentence has a capital, so it counts as a name only if neither text
also has it in lower case.

Not found: names in scripts without capitals, and number words that are not on the list. Wrongly found: German nouns,
and rare words at the beginning of a sentence. In doubt a change counts as a change of facts, because readers look at
those more carefully than at wording.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

# Words that begin sentences and are not names; a mistake here only moves a change between two rules.
_COMMON = """
    a about absolutely according actually additionally after again all almost already also although always am an and
    another any anything are as ask at based be because before below besides both but by can certainly click compared
    consider could depending despite did do does during each either else ensure especially even every everything
    example feel finally find first firstly following for from furthermore generally get give given go good great had
    has have having he hello help hence her here hey hi his how however i if important in indeed instead into is it
    it's its just keep key last lastly later least less let like likewise look make many may maybe me meanwhile might
    more moreover most much must my neither never nevertheless next no nobody none nonetheless nor not note nothing
    now of oh ok okay on once one only open or other otherwise our out over overall perhaps please possible put
    remember result run say second secondly see select set several shall she should similarly simply since so some
    somebody someone something sometimes soon sorry start step still such sum summary sure take tell than thank thanks
    that the their them then there therefore these they third this those though through thus to today together too try
    typically under understood unfortunately unless until up upon us use using usually very wait was we well were what
    when where whereas whether which while who whom whose why will with within without would write yes yet you your
"""
COMMON_WORDS = frozenset(_COMMON.split())

# Numbers that are written as words. Not "one": it is rarely a number.
_NUMBERS = """
    zero=0 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 thirteen=13 fourteen=14
    fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30 forty=40 fifty=50 sixty=60
    seventy=70 eighty=80 ninety=90 hundred=100 thousand=1000 million=1000000 billion=1000000000
"""
NUMBER_WORDS: dict[str, str] = dict(pair.split("=") for pair in _NUMBERS.split())

_FACT = re.compile(
    r"""(?P<link>https?://[^\s<>"'`)\]}]+)
      | (?P<date>\d+(?:[-/]\d+){2}(?:[T ]\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?
               | \d{1,2}:\d\d(?::\d\d)?(?!\w) | \d+(?:\.\d+){2,}(?!\w))
      | (?P<number>(?:(?<!\w)[-+−])?[$€£¥]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?(?:[ ]?%)?(?!\w))
      | (?P<code>\w*\d\w*)
      | (?P<word>[^\W\d]+(?:['’-][^\W\d]+)*)""",
    re.VERBOSE,
)
_SENTENCE_START = re.compile(r"""[.!?:;\n"“”‘(\[{*#>|•=-]""")


@dataclass(frozen=True)
class Facts:
    """What one text states. `maybe_names` began a sentence; `order` has every fact as it came."""

    numbers: Counter[str] = field(default_factory=Counter)  # also dates, times and codes
    links: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    maybe_names: frozenset[str] = frozenset()
    lower_words: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class FactChange:
    """The facts that only one of two texts states, sorted; and whether the shared ones changed places."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    reordered: bool

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


def find_facts(text: str) -> Facts:
    """Find the numbers, dates, links and names of a text."""
    numbers: list[str] = []
    links: set[str] = set()
    names: dict[bool, set[str]] = {True: set(), False: set()}  # by whether it begins a sentence
    lower: set[str] = set()
    order: list[str] = []
    readings: dict[tuple[str | None, str], tuple[str, str]] = {}  # Texts repeat their words.
    end = 0
    for match in _FACT.finditer(text):
        spelled = match.lastgroup, match[0]
        kind, value = readings.get(spelled) or readings.setdefault(spelled, _read(*spelled))
        if kind == "word":
            lower.add(value)
        elif kind == "name":
            names[end == 0 or bool(_SENTENCE_START.search(text, end, match.start()))].add(value)
        elif kind == "link":
            links.add(value)
        else:
            numbers.append(value)
        if kind != "word":
            order.append(value)
        end = match.end()
    maybe = names[True] - names[False]
    certain = frozenset(names[False])
    return Facts(Counter(numbers), frozenset(links), certain, frozenset(maybe), frozenset(lower), tuple(order))


def _read(group: str | None, value: str) -> tuple[str, str]:
    """The kind of a fact, and its plain spelling."""
    if group == "number":
        return group, _plain_number(value)
    if group == "link":
        return group, value.rstrip(".,;:!?")
    if group != "word":
        return "number", value
    plain = value.strip("_").removesuffix("'s").removesuffix("’s")  # `Paris's` is `Paris`.
    small = plain.lower()
    if small in NUMBER_WORDS:
        return "number", NUMBER_WORDS[small]
    return ("word", small) if small == plain or small in COMMON_WORDS else ("name", plain)


def compare_facts(before: str, after: str) -> FactChange:
    """Which facts only one of two texts states."""
    old, new = find_facts(before), find_facts(after)
    lower = old.lower_words | new.lower_words
    names = [facts.names | {name for name in facts.maybe_names if name.lower() not in lower} for facts in (old, new)]
    removed = [*(old.numbers - new.numbers), *(old.links - new.links), *(names[0] - _all_names(new))]
    added = [*(new.numbers - old.numbers), *(new.links - old.links), *(names[1] - _all_names(old))]
    moved = not removed and not added and old.order != new.order and Counter(old.order) == Counter(new.order)
    return FactChange(tuple(sorted(set(removed))), tuple(sorted(set(added))), moved)


def _all_names(facts: Facts) -> frozenset[str]:
    return facts.names | facts.maybe_names


def _plain_number(text: str) -> str:
    number = text.replace(",", "").replace("−", "-").replace(" ", "").lstrip("+")
    integer, point, fraction = number.rstrip("%").partition(".")
    if not point or "e" in fraction.lower():
        return number
    fraction = fraction.rstrip("0")
    return integer + (f".{fraction}" if fraction else "") + ("%" if number.endswith("%") else "")
