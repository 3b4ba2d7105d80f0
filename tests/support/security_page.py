"""The table of SECURITY.md: what each command reads, writes, listens on and connects to."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
COLUMNS = "| command | reads | writes | listens on | connects to | encrypts |"


def list_rows() -> dict[str, list[str]]:
    """The cells behind the command, for each command of the table."""
    lines = PAGE[PAGE.index(COLUMNS) :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {name: cells for first, *cells in rows for name in re.findall(r"`([a-z-]+)", first)}
