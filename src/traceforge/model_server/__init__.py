"""A model server for demos and tests: five provider APIs, no model, no network, no key.

    python -m traceforge.model_server --port 8080

It has the APIs of OpenAI (chat completions, Responses, completions, embeddings), Anthropic, Gemini, Ollama and
Bedrock (Converse), plain and streaming. An answer is computed from the whole request: the same request always gets
the same bytes, and a request that differs in one character gets other words.

It imports the standard library only, and nothing of TraceForge. `traceforge chat serve` uses it when no other
upstream is given.

`http_server` is the server, `generated_answer` decides the answer, `schema_values` makes values for a JSON schema,
and `fake_openai`, `fake_responses`, `fake_anthropic`, `fake_gemini`, `fake_ollama` and `fake_bedrock` read and write
one API each.
"""
