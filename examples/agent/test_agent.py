"""The agent's tests. Under `traceforge test -- python -m pytest`, none of them calls a model."""

from __future__ import annotations

from agent import SupportAgent, triage


def test_an_order_is_looked_up() -> None:
    """The status comes from the shop, not from the model."""
    assert "on its way" in SupportAgent().ask("Where is my order A-1002?")


def test_a_refund_is_computed() -> None:
    """Damaged books are refunded in full."""
    agent = SupportAgent()
    answer = agent.ask("I want a refund for order A-1001, it arrived damaged.")

    called = [call["function"]["name"] for message in agent.messages for call in message.get("tool_calls", [])]
    assert called == ["look_up_order", "compute_refund"]
    assert "59.9" in answer


def test_an_unknown_order_is_admitted() -> None:
    """It is not invented."""
    assert "there is no order A-9999" in SupportAgent().ask("What about order A-9999?")


def test_a_conversation_goes_on() -> None:
    """The second question refers to the first."""
    agent = SupportAgent()
    agent.ask("Where is my order A-1002?")

    assert "A-1003" in agent.ask("And order A-1003?")


def test_the_answer_is_streamed() -> None:
    """Customers see it word by word."""
    pieces: list[str] = []
    answer = SupportAgent().ask("Where is my order A-1003?", on_text=pieces.append)

    assert len(pieces) > 3
    assert "".join(pieces) == answer


def test_messages_are_sorted() -> None:
    """For the right queue."""
    ticket = triage("I want a refund for order A-1001, it arrived damaged.")

    assert ticket["category"] == "refund"
    assert 0 <= ticket["certainty"] <= 100
