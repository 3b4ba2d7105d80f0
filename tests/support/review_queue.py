"""A review queue as a day of work leaves it: 30 pending changes, twelve of them with one cause."""

from __future__ import annotations

from pathlib import Path

from support.proposals import make_call
from support.review_project import TOOL, ask, make_review_project
from traceforge.exchange import Exchange
from traceforge.snapshots.record.pending_changes import PendingChange

SYSTEM = "\n".join((
    "You are the help desk of Bookshop Ltd.",
    "Answer in at most three sentences.",
    "Always quote the order number.",
    "Never promise a delivery date.",
    "Do not talk about competitors.",
))  # fmt: skip
NEW_SYSTEM = SYSTEM.replace("in at most three sentences", "kindly, in at most two sentences").replace(
    "Never promise a delivery date.", "Say that a delivery date is an estimate."
)
QUESTIONS = (
    "Where is order 1881?", "Can I return order 1882?", "My parcel is wet.", "I was charged twice for order 1883.",
    "Do you ship to Norway?", "How do I change my address?", "Is the signed edition in stock?", "I got no receipt.",
    "Cancel order 1884 please.", "Which carrier do you use?", "My gift card does not work.", "You are useless!",
)  # fmt: skip
NAMES = ("Ann", "Bob", "Cem", "Dee")
TOPICS = ("rain", "snow", "fog", "the sea", "a cat", "a dog", "the moon", "a train")
THREAD = "The customer asks about a refund.\n" * 30
NEW_TOOL = {
    "type": "function",
    "function": {
        **TOOL["function"],
        "description": "Find one order by its number.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "string", "pattern": "^[0-9]{4}$"}, "items": {"type": "boolean"}},
            "required": ["number", "items"],
        },
    },
}


def _desk(system: str, answer: str) -> list[Exchange]:
    return [
        ask(system, question, number=10 + place, answer=answer.format(1881 + place), test=f"test_desk[{place}]")
        for place, question in enumerate(QUESTIONS)
    ]


def _other_calls(model: str, answers: tuple[str, str], tool: object, thread: str, mark: str) -> list[Exchange]:
    return [
        *(ask("Translate to French.", f"Good morning {name}", number=40 + place, answer=f"Bonjour {name}{mark}",
              test=f"test_french[{name}]", model=model) for place, name in enumerate(NAMES)),
        *(ask("Find the order.", f"Order {number}", number=43 + number, answer=f"Order {number} is here.",
              test=f"test_tool[{number}]", tools=[tool]) for number in (7, 8)),
        ask("Summarise.", thread, number=52, answer=f"A refund{mark}.\nNothing else.", test="test_thread"),
        *(ask("Classify.", text, number=53 + place, answer=answers[place], test=f"test_label[{place}]")
          for place, text in enumerate(("I love it", "I hate it"))),
    ]  # fmt: skip


def approved_queue() -> list[Exchange]:
    labels = ('{"label": "positive", "score": 0.98}', '{"label": "negative", "score": 0.91}')
    return [
        *_desk(SYSTEM, "Order {} left our warehouse on Monday and is on its way. We are sorry for the wait."),
        *_other_calls("gpt-4o-mini", labels, TOOL, THREAD, ""),
    ]


def changed_queue() -> list[Exchange]:
    """The prompt edited in twelve tests, another model, another schema, other answers, new calls, a failed call."""
    labels = ('{"label": "neutral", "score": 0.51}', '{"label": "negative", "score": 0.67}')
    return [
        *_desk(NEW_SYSTEM, "Good news: order {} left on Monday. We estimate 12 May."),
        *_other_calls("gpt-4.1-mini", labels, NEW_TOOL, f"{THREAD}And about the postage.\n", " !"),
        *(ask("Write a haiku.", f"About {topic}", number=60 + place, answer=f"**{topic}**\n- soft\n- quiet",
              test=f"test_haiku[{topic}]", temperature=0.7, seed=None) for place, topic in enumerate(TOPICS)),
        make_call("What is it?", "no such model", 70, "tests/test_bot.py::test_bot", "shop/bot.py:3:ask", status=400),
    ]  # fmt: skip


def make_review_queue(folder: Path) -> list[PendingChange]:
    """Make the project; returns its changes."""
    return make_review_project(folder, approved_queue(), changed_queue())
