"""OpenAI: chat completions, legacy completions, Responses, embeddings; Azure and every compatible server."""
