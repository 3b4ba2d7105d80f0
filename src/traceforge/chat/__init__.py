"""A chat that can explain one answer, and stores nothing about the explanation.

`chat_server` accepts connections and `chat_connection` admits requests; `chat_request` reads one, `conversation`
answers it: the `prompt_layers`, the session's messages from `conversation_memory` and the new message go to the model
through `provider_model`. On request, the `execution_trace` says what was used. `frontend/` is the page, `prompts/`
are the default prompts.
"""
