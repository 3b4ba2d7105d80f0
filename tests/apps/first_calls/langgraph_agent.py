"""A graph of LangGraph with one tool."""

from __future__ import annotations

from langchain_core.messages import AnyMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

QUESTION = "What is the weather in Paris?"


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def ask(state: MessagesState) -> dict[str, list[AnyMessage]]:
    model = ChatOpenAI(model="gpt-4.1").bind_tools([get_weather])
    return {"messages": [model.invoke(state["messages"])]}


def test_agent() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    result = graph.compile().invoke({"messages": [{"role": "user", "content": QUESTION}]})
    assert result["messages"][-1].text
