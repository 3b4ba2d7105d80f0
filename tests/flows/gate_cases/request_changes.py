"""What steers an answer: each change of it in a request is red."""

from __future__ import annotations

import re
from itertools import cycle

from support.gate_case import PROXY, PYTEST, TEST, XDIST, Case, Replace, red

DESK, CHAT, TOOLS = "desk.py", "chat_tests.py", "tools_tests.py"
OTHER_WAYS = cycle((PYTEST, PROXY, XDIST))
# The proxy knows no rules. It says what differs.
SAYS = r"GT[12]\b|no recorded call matches"

# A row that changes one field of the body: the output names this field, so it compares with the right call.
FIELD = re.compile(r'(?:MORE = \{)?"(\w+)": .*[^{]$')

Row = tuple[str, str, str, str]


def _name_field(before: str, after: str) -> str:
    """An expression for the place of the field that the row changes."""
    field = FIELD.match(after.strip() or before.strip())
    return rf"\$[^ ]*\b{field[1]}\b" if field else SAYS


def table(tests: str, rows: list[Row], *, is_field: bool = False) -> list[Case]:
    """A case for each name, file, text and replacement: in `traceforge test`, and in the other ways in turn."""
    return [
        red(
            name,
            Replace(file, before, after),
            tests=tests,
            says=_name_field(before, after) if is_field else SAYS,
            ways=(TEST, next(OTHER_WAYS)),
        )
        for name, file, before, after in rows
    ]


QUESTION = "Where is my parcel?"
SYSTEM, USER = '{"role": "system", "content": SYSTEM}', '{"role": "user", "content": question}'

PROMPTS: list[Row] = [
    ("a word of a prompt is another", CHAT, QUESTION, "Where is my package?"),
    ("a letter of a prompt has another case", CHAT, QUESTION, "where is my parcel?"),
    ("a prompt ends with a space", CHAT, QUESTION, "Where is my parcel? "),
    ("a prompt has a line break for a space", CHAT, QUESTION, "Where is my\\nparcel?"),
    ("a prompt has two spaces for one", CHAT, QUESTION, "Where is  my parcel?"),
    ("a prompt has a no-break space", CHAT, QUESTION, "Where is my\u00a0parcel?"),
    ("a letter is decomposed", CHAT, QUESTION, "Where is my pa\u0301rcel?"),
    ("a letter looks the same and is another", CHAT, QUESTION, "Where is my p\u0430rcel?"),
    ("a prompt has an invisible character", CHAT, QUESTION, "Where is\u200b my parcel?"),
    ("a prompt is empty", CHAT, QUESTION, ""),
    ("a prompt says what a placeholder says", CHAT, QUESTION, "[REDACTED]"),
    ("a prompt is as long as another", CHAT, QUESTION, "Who has my parcel??"),
    ("the system prompt is another", DESK, "Be brief.", "Be thorough."),
    ("the system prompt is gone", DESK, f"{SYSTEM}, ", ""),
    ("the system prompt stands last", DESK, f"[{SYSTEM}, {USER}]", f"[{USER}, {SYSTEM}]"),
    ("the prompt of a stream is another", CHAT, "Tell me a story.", "Tell me a tale."),
    ("a stream becomes a plain answer", DESK, '"stream": True, ', ""),
    ("a stream reports no usage", DESK, '{"include_usage": True}', '{"include_usage": False}'),
]

NAMED, GREEN = (
    '{"role": "user", "content": "My name is Ada."},',
    '{"role": "user", "content": "My colour is green."},',
)
MESSAGES: list[Row] = [
    ("a message moves to the front", CHAT, NAMED, f"{GREEN}\n        {NAMED}"),
    ("a message is doubled", CHAT, GREEN, f"{GREEN}\n        {GREEN}"),
    ("a message is gone", CHAT, f"        {GREEN}\n", ""),
    ("a message of the model is another", CHAT, "Hello, Ada.", "Hello, Bob."),
    ("a role is another", CHAT, '"system", "content": "You r', '"developer", "content": "You r'),
    (
        "a message of the user becomes one of the model",
        CHAT,
        '"user", "content": "My c',
        '"assistant", "content": "My c',
    ),
    ("a message has a name", CHAT, NAMED, NAMED.replace("}", ', "name": "ada"}')),
    ("a text becomes a list of parts", CHAT, '"My name is Ada."', '[{"type": "text", "text": "My name is Ada."}]'),
    ("two messages become one", CHAT, 'green."},\n        {"role": "user", "content": "', "green. "),
    ("a message is empty", CHAT, "My colour is green.", ""),
    ("a message is null", CHAT, '"My colour is green."', "None"),
]

MODEL = '"gpt-4.1-mini", "temp'
PARAMETERS: list[Row] = [
    ("the model is another", DESK, MODEL, MODEL.replace("-mini", "")),
    ("the model is a dated one", DESK, MODEL, MODEL.replace("mini", "mini-2025-04-14")),
    ("the name of the model has another case", DESK, MODEL, MODEL.replace("gpt", "GPT")),
    ("the temperature is another", DESK, '"temperature": 0, "s', '"temperature": 0.1, "s'),
    ("the temperature is tiny", DESK, '"temperature": 0, "s', '"temperature": 1e-300, "s'),
    ("the temperature is gone", DESK, '"temperature": 0, "s', '"s'),
    ("the seed is another", DESK, '"seed": 7', '"seed": 8'),
    ("the seed is gone", DESK, '"seed": 7, ', ""),
    ("the limit of tokens is another", DESK, '"max_tokens": 60', '"max_tokens": 61'),
    ("the limit of tokens has its newer name", DESK, '"max_tokens": 60', '"max_completion_tokens": 60'),
    ("the limit of tokens is gone", DESK, ', "max_tokens": 60', ""),
    ("the limit of tokens is a text", DESK, '"max_tokens": 60', '"max_tokens": "60"'),
    *(
        (f"{before} becomes {after}", CHAT, f"    {before},\n", f"    {after},\n")
        for before, after in (
            ('"top_p": 0.9', '"top_p": 0.8'),
            ('"frequency_penalty": 0.5', '"frequency_penalty": 0.6'),
            ('"presence_penalty": 0.25', '"presence_penalty": 0.26'),
            ('"stop": ["END"]', '"stop": ["STOP"]'),
            ('"stop": ["END"]', '"stop": ["END", "STOP"]'),
            ('"logit_bias": {"50256": -100}', '"logit_bias": {"50256": -99}'),
            ('"logit_bias": {"50256": -100}', '"logit_bias": {"50257": -100}'),
            ('"logprobs": True', '"logprobs": False'),
            ('"logprobs": True', '"logprobs": 1'),
            ('"reasoning_effort": "low"', '"reasoning_effort": "high"'),
            ('"service_tier": "flex"', '"service_tier": "priority"'),
            ('"store": False', '"store": True'),
            ('"metadata": {"team": "desk"}', '"metadata": {"team": "shop"}'),
        )
    ),
    *(
        (f"{text} is gone", CHAT, f"    {text},\n", "")
        for text in (
            '"top_p": 0.9', '"frequency_penalty": 0.5', '"presence_penalty": 0.25', '"stop": ["END"]',
            '"logit_bias": {"50256": -100}', '"logprobs": True', '"reasoning_effort": "low"',
            '"service_tier": "flex"', '"store": False', '"metadata": {"team": "desk"}',
        )
    ),
    *(
        (f"{more} is added", DESK, "MORE = {}", f"MORE = {{{more}}}")
        for more in (
            '"top_k": 5', '"min_p": 0.1', '"top_p": 1', '"n": 2', '"stop": None', '"verbosity": "low"',
            '"parallel_tool_calls": False', '"modalities": ["text"]', '"prediction": {"type": "content"}',
            '"user": {"id": "ada"}', '"user": None', '"prompt_cache_key": ["desk"]', '"safety_identifier": {"id": 1}',
            '"web_search_options": {}', '"thinking": {"type": "enabled"}', '"a_field_of_nobody": 1', '"cached": True',
        )
    ),
]  # fmt: skip

INTEGERS: list[Row] = [
    ("an integer beyond 2^53 is one less", CHAT, "9007199254740993", "9007199254740992"),
    ("an integer beyond 2^53 is one more", CHAT, "9007199254740993", "9007199254740994"),
    ("an integer beyond 2^53 is a text", CHAT, "9007199254740993", '"9007199254740993"'),
    ("an integer beyond 2^63 is added", DESK, "MORE = {}", 'MORE = {"big": 18446744073709551617}'),
]

RESULT_A = '{"role": "tool", "tool_call_id": "call_a", "content": "lost"}'
TOOL_CHANGES: list[Row] = [
    ("a tool has another name", DESK, '"name": "find_parcel"', '"name": "look_up_parcel"'),
    ("a tool has another description", DESK, "Find a parcel by its number.", "Find a parcel."),
    ("an argument has another description", DESK, "Such as P-17.", "Such as P-18."),
    ("an argument has another type", DESK, '"number": {"type": "string"', '"number": {"type": "integer"'),
    ("an argument is optional", DESK, '"required": ["number"]', '"required": []'),
    ("other arguments are allowed", DESK, '"additionalProperties": False', '"additionalProperties": True'),
    ("a tool is strict", DESK, '"name": "find_parcel",', '"name": "find_parcel", "strict": True,'),
    ("a tool is offered twice", DESK, 'tools=[TOOL], tool_choice="req', 'tools=[TOOL, TOOL], tool_choice="req'),
    ("no tool is offered in the second turn", DESK, ', tools=[TOOL], tool_choice="none"', ""),
    ("the tool may be left out", DESK, 'tool_choice="required"', 'tool_choice="auto"'),
    ("the tool choice is an object", DESK, 'tool_choice="required"', 'tool_choice={"type": "required"}'),
    ("the tool choice is gone", DESK, ', tool_choice="required"', ""),
    ("the result of a tool is another", DESK, "on its way", "lost"),
    ("the result of a tool has other white space", DESK, 'on its way"})', 'on its way"}, indent=1)'),
    ("an argument of an earlier tool call is another", TOOLS, '"number": "P-1"', '"number": "P-3"'),
    ("a tool result is that of another tool", TOOLS, '"content": "lost"', '"content": "found"'),
    ("the ids of two tool results are swapped", TOOLS, f"RESULTS = [\n    {RESULT_A}",
     f"RESULTS = [\n    {RESULT_A.replace('call_a', 'call_b')}"),
    ("a tool result refers to an id that nobody defined", TOOLS, RESULT_A, RESULT_A.replace("call_a", "call_z")),
    ("two tool calls have the same id", TOOLS, '"id": "call_b"', '"id": "call_a"'),
    ("two tool results are swapped with their ids", TOOLS, "*RESULTS]", "*RESULTS[::-1]]"),
    ("the format of the answer has another name", DESK, '"name": "mood"', '"name": "moods"'),
    ("the format of the answer is not strict", DESK, '"strict": True', '"strict": False'),
    ("the format of the answer has one value more", DESK, '["calm", "angry"]', '["calm", "angry", "sad"]'),
    ("the format of the answer has its values reversed", DESK, '["calm", "angry"]', '["angry", "calm"]'),
    ("the format of the answer is any JSON", TOOLS, "format=desk.FORMAT", 'format={"type": "json_object"}'),
    ("the format of the answer is free", TOOLS, ", response_format=desk.FORMAT", ""),
]  # fmt: skip

PARTS = '[{"type": "text", "text": "What is this?"}, picture]'
IMAGES: list[Row] = [
    ("an image is another", CHAT, "hgGAWjR9aw", "hgGAWjR9bw"),
    ("an image has another type", CHAT, "data:image/png", "data:image/gif"),
    ("an image has another detail", CHAT, '"detail": "low"', '"detail": "high"'),
    ("an image is gone", CHAT, PARTS, '[{"type": "text", "text": "What is this?"}]'),
    ("an image stands first", CHAT, PARTS, '[picture, {"type": "text", "text": "What is this?"}]'),
    ("an image stands twice", CHAT, PARTS, PARTS.replace("picture", "picture, picture")),
    ("an image is sent by its address", CHAT, 'f"data:image/png;base64,{PIXEL}"', '"https://img.example/1.png"'),
]

POST = "headers=headers(), json=body, timeout=30)"


def _repeated(before: str, after: str) -> str:
    """The body with a member twice; our own reader takes the last."""
    text = f"json.dumps(body).replace({before!r}, {after!r}, 1)"
    return f'headers={{**headers(), "Content-Type": "application/json"}}, content={text}, timeout=30)'


REPEATED: list[Row] = [
    ("the model stands twice", DESK, POST, _repeated('"model"', '"model": "gpt-4.1", "model"')),
    ("the model stands twice, and is the same", DESK, POST, _repeated('"model"', '"model": "gpt-4.1-mini", "model"')),
    ("the text of a message stands twice", DESK, POST, _repeated('"content"', '"content": "Be rude.", "content"')),
]

CASES = {
    "a name that stands twice": table(CHAT, REPEATED),
    "a prompt": table(CHAT, PROMPTS),
    "the messages": table(CHAT, MESSAGES),
    "a parameter": table(CHAT, PARAMETERS, is_field=True),
    "an integer": table(CHAT, INTEGERS),
    "a tool": table(TOOLS, TOOL_CHANGES),
    "an image": table(CHAT, IMAGES),
}
