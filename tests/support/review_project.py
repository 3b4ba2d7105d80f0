"""A project with approved calls, and changes of them that wait for review."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.proposals import make_call, propose
from traceforge.clock import pinned
from traceforge.config import load_config
from traceforge.exchange import Exchange
from traceforge.snapshots.approve.pending_approval import approve_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.pending_changes import PendingChange, load_pending, save_pending
from traceforge.snapshots.tree.approved_calls import load_approved_calls

APPROVED_AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
REASON = "the first answers, as agreed"
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "find_order",
        "parameters": {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]},
    },
}
SYSTEM = "You are the help desk of a bookshop.\nAnswer in at most three sentences.\nQuote the order number."
NEW_SYSTEM = "You are the help desk of a bookshop.\nAnswer kindly, in at most two sentences.\nQuote the order number."


def ask(system: str, *turns: str, number: int, answer: str, test: str, **more: Any) -> Exchange:
    """A call of a test: the system prompt, and the turns of user and assistant."""
    roles = ("user", "assistant")
    messages = [{"role": "system", "content": system}]
    messages += [{"role": roles[place % 2], "content": turn} for place, turn in enumerate(turns)]
    scope = f"tests/test_desk.py::{test}"
    return make_call("", answer, number, scope, f"shop/desk.py:{20 + number}:{test}", messages=messages, **more)


def approved_calls() -> list[Exchange]:
    return [
        ask(SYSTEM, "Where is order 1881?", number=1, answer="Order 1881 left on Monday. It arrives on 12 May.",
            test="test_where"),
        ask(SYSTEM, "Can I return order 1882?", number=2, answer="Yes, within 30 days. Order 1882 is refunded.",
            test="test_return"),
        ask(SYSTEM, "Can I return order 1882?", "Yes, within 30 days.", "And the postage?", number=3,
            answer="We pay the postage of order 1882.", test="test_return"),
        ask("Find the order.", "Order 7", number=4, answer="Order 7 is here.", test="test_tool", tools=[TOOL]),
        ask("Translate to French.", "Good morning", number=5, answer="Bonjour", test="test_french"),
    ]  # fmt: skip


def changed_calls() -> list[Exchange]:
    """One edit of a prompt in three calls, a tool with another schema, another answer, a new call."""
    tool = {"type": "function", "function": {**TOOL["function"], "description": "Find one order by its number."}}
    return [
        ask(NEW_SYSTEM, "Where is order 1881?", number=1,
            answer="Good news: order 1881 left on Monday. It arrives on 14 May.", test="test_where"),
        ask(NEW_SYSTEM, "Can I return order 1882?", number=2, answer="Of course! Order 1882 can be returned.",
            test="test_return"),
        ask(NEW_SYSTEM, "Can I return order 1882?", "Of course!", "And the postage?", number=3,
            answer="We are glad to pay the postage of order 1882.", test="test_return"),
        ask("Find the order.", "Order 7", number=4, answer="Order 7 is here.", test="test_tool", tools=[tool],
            temperature=0.2),
        ask("Translate to French.", "Good morning", number=5, answer="Bonjour !", test="test_french"),
        ask("Summarise.", "A long story about a lighthouse keeper and his cat.", number=6,
            answer="**A cat** keeps a lighthouse.", test="test_summary", temperature=0.7, seed=None),
    ]  # fmt: skip


def make_review_project(
    folder: Path, approved: Sequence[Exchange] | None = None, changed: Sequence[Exchange] | None = None
) -> list[PendingChange]:
    """Make a repository in which calls are approved and changes of them are pending; returns the changes."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    for name, value in (("user.name", "Ada Lovelace"), ("user.email", "ada@example.org")):
        subprocess.run(["git", "-C", folder, "config", name, value], check=True)
    (folder / ".gitignore").write_text(".ai-tests/\n")
    first = propose(*(approved_calls() if approved is None else approved)).changes
    if first:
        with pinned(APPROVED_AT):
            approve_changes(load_config(str(folder)), first, reason=REASON, tag="SHOP-7")
    present = load_approved_calls(str(folder), ModelPolicy())
    changes = propose(*(changed_calls() if changed is None else changed), approved=present).changes
    save_pending(str(folder), changes, [])
    return load_pending(str(folder))
