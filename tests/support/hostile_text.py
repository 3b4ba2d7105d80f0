"""Text that harms a reader of a terminal or a build log, and a check that none of it was printed.

The check knows nothing of `traceforge.terminal`: it goes by Unicode's categories, and by what CI services document.
"""

from __future__ import annotations

import re
import unicodedata

import pytest

COMMANDS = {
    "github": "::set-output name=key::value",
    "github-env": "::set-env name=PATH::/tmp",
    "github-stop": "::stop-commands::token",
    "github-old": "##[command]rm -rf /",
    "github-group": "##[group]hidden",
    "azure": "##vso[task.setvariable variable=PATH]/tmp",
    "teamcity": "##teamcity[buildStatus status='SUCCESS']",
    "gitlab": "section_start:1:name",
    "gitlab-end": "section_end:1:name",
    "travis": "travis_fold:start:name",
}
LINE_STARTS = {
    "github": "::anything::value",
    "github-error": "::error file=a::forged",
    "buildkite": "--- forged",
    "buildkite-open": "+++ forged",
    "buildkite-muted": "~~~ forged",
    "buildkite-reopen": "^^^ +++",
}
CHARACTERS = {
    "osc52": "\x1b]52;c;Zm9v\x07",
    "csi": "\x1b[2J\x1b[H",
    "title": "\x1b]0;title\x1b\\",
    "c1-csi": "\x9b2J",
    "c1-osc": "\x9d52;c;Zm9v\x9c",
    "next-line": "\x85",
    "backspace": "\x08\x08\x08",
    "return": "safe\rforged",
    "delete": "\x7f",
    "form-feed": "\x0c\x0b",
    "right-to-left": "\u202egnp.exe",
    "isolate": "\u2066a\u2069",
    "arabic-mark": "\u061c",
    "zero-width": "a\u200b\u200d\u2060\ufeffb",
    "tags": "\U000e0041\U000e0042",
    "line-separator": "\u2028::error::forged",
    "paragraph-separator": "\u2029##[error]forged",
    "soft-hyphen": "a\u00adb",
    "no-break-space": "\u00a0::error::forged",
    "filler": "\u3164\u115f\u034f",
}
LINES = {
    "line-ending": "first\n::error::forged",
    "two-lines": "first\n\n##vso[task.complete result=Succeeded]done",
    "indented": "first\n \t ::set-output name=a::b",
    "section": "first\n--- forged",
}
HOSTILE = {**COMMANDS, **CHARACTERS, **LINES}
EVERYTHING = " ".join(HOSTILE.values())  # One text with all of them.

_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_INVISIBLE = set("\u00a0\u034f\u115f\u1160\u3164\uffa0")
_ANYWHERE = re.compile(
    r"##\w*\[|section_(?:start|end):|travis_(?:fold|time):"
    r"|::(?:set-output|set-env|add-path|save-state|add-mask|stop-commands|group|endgroup|error|warning)(?:[ :]|$)"
)
_START = ("::", "---", "+++", "~~~", "^^^")


def list_harm(output: str) -> list[str]:
    """Every harmful character and line of an output that begins a line where it is printed."""
    harm = [f"U+{ord(char):04X}" for char in sorted(set(output) - {"\n", "\t"}) if is_harmful(char)]
    for line in output.split("\n"):
        start = line.lstrip()
        if start.startswith(_START) or _ANYWHERE.search(line):
            harm.append(line)
    return harm


def is_harmful(char: str) -> bool:
    """Whether a character moves, hides or swaps what a terminal shows."""
    return unicodedata.category(char) in _HARMFUL or char in _INVISIBLE


def each_hostile_text(**more: str) -> pytest.MarkDecorator:
    """Every hostile text, and more."""
    texts = {**HOSTILE, "surrogate": "\ud800", **more}
    return pytest.mark.parametrize("text", texts.values(), ids=texts)
