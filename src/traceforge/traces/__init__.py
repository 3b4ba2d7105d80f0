"""Recorded calls (in this version: the trace format)."""
