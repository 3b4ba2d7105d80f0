"""The context store over HTTP."""
