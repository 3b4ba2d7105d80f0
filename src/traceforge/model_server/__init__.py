"""A model server for demos and tests: four wire formats, no model, no network, no key.

    python -m traceforge.model_server --port 8080

It speaks OpenAI (chat completions, Responses, completions, embeddings), Anthropic messages, Gemini and Ollama, plain
and streaming. An answer is computed from the whole request, so the same request is always answered with the same
bytes, and a request in which one character differs is answered in other words.

It imports the standard library alone, and nothing of TraceForge; `traceforge chat serve` asks it where no other
upstream is named.

`server` is HTTP, `speech` decides what is said, `fill` makes values that fit a JSON schema, and `openai_api`,
`anthropic_api`, `gemini_api` and `ollama_api` each know how one provider asks and answers.
"""
