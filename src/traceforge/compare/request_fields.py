"""Which part of a request a field belongs to, by its name at any provider.

In a module of its own: what explains an unmatched request needs it, and little else of `compare`.
"""

from __future__ import annotations

MODEL_FIELDS = frozenset({"model"})
PROMPT_FIELDS = frozenset(
    {"messages", "prompt", "suffix", "system", "instructions", "input", "contents", "system_instruction"}
    | {"systemInstruction", "preamble", "message", "chat_history", "documents"}
)
INSTRUCTION_FIELDS = frozenset({"system", "instructions", "system_instruction", "systemInstruction", "preamble"})
INSTRUCTION_ROLES = frozenset({"system", "developer"})
TOOL_LISTS = frozenset({"tools", "functions"})
TOOL_FIELDS = TOOL_LISTS | {"tool_choice", "function_call", "parallel_tool_calls", "tool_config", "toolConfig"}
FORMAT_FIELDS = frozenset({"response_format", "format", "text", "output_format", "output_config", "modalities"})
