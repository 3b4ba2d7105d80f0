"""Assemble the newest section of CHANGELOG.md from the fragments in changelog.d, by kind.

    python tools/changelog.py                  write the section "Unreleased" from the fragments, which stay
    python tools/changelog.py --release 0.2.0  the same under the version and today's date; removes the fragments

What stands under the heading of the section before its first kind is written by hand, and stays.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "Unreleased"
# The kinds in the order of changelog.d/README.md, with their headings.
HEADINGS = {
    "security": "Security",
    "removed": "Removed",
    "deprecated": "Deprecated",
    "added": "Added",
    "changed": "Changed",
    "fixed": "Fixed",
    "format": "File formats",
}
INTRODUCTION = "# Changes\n\nWhat a user of TraceForge can notice, newest release first.\n"


def changelog_text(page: str, folder: Path, title: str = UNRELEASED) -> str:
    """`page` with the section "Unreleased" written anew from the fragments in `folder`, under `title`."""
    summary, older = "", []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        if name == UNRELEASED:
            summary = text.partition("### ")[0].strip()
        else:
            older.append(f"## {section.rstrip()}\n")
    newest = [f"## {title}\n", *([f"{summary}\n"] if summary else []), *_lists(folder)]
    return "\n".join([INTRODUCTION, *newest, *older])


def _lists(folder: Path) -> list[str]:
    """A heading and a list for each kind that has fragments; links lead from where CHANGELOG.md is."""
    lists = []
    for kind, heading in HEADINGS.items():
        sentences = [path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"*.{kind}.md"))]
        if sentences:
            lists.append(
                f"### {heading}\n\n" + "".join(f"- {sentence}" for sentence in sentences).replace("](../", "](")
            )
    return lists


def main(arguments: list[str]) -> None:
    folder, page = ROOT / "changelog.d", ROOT / "CHANGELOG.md"
    title = UNRELEASED
    if arguments:
        option, version = arguments
        assert option == "--release", __doc__
        title = f"{version} ({datetime.datetime.now(datetime.UTC).date()})"
    page.write_text(changelog_text(page.read_text(encoding="utf-8"), folder, title), encoding="utf-8")
    if arguments:
        for kind in HEADINGS:
            for path in folder.glob(f"*.{kind}.md"):
                path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
