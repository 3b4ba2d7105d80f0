"""The chat that can explain one answer (in this version: its trace format)."""
