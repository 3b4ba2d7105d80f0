"""Replay runs: the same pinned inputs for a baseline and a candidate model, in threads or on Ray."""
