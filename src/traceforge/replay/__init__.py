"""Replay: a request is recognised, and answered as it was before. Pure, but for what loads recordings."""
