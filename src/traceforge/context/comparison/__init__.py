"""Replay runs: pinned inputs on a baseline and on a candidate, in threads or on Ray."""
