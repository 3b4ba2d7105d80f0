"""Tools: functions of the application that a model calls, so that their calls can be recorded and replayed.

In: functions, and tools of agent frameworks. Out: the same; while something watches, the hook takes their calls.
Never: changes what a function gets, returns or raises where nothing watches; imports anything but the standard
library, because applications import it where they serve users.

    tool_decorator      `traceforge.tool`
    framework_tools     tools of LangChain, pydantic-ai and openai-agents
    watched_function    one function; which functions a test wants to run for real
"""
