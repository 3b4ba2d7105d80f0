"""The chat that can explain one answer, and remembers nothing about the explanation.

`server` accepts and `door` lets in; `ask` reads a request, `talk` answers it: the prompt `layers`, the `memory` of
its session and its message go to the model through `upstream`, and `explain` says what was used, if asked for.
`frontend/` is the page, `prompts/` the prompts where nobody names others.
"""
