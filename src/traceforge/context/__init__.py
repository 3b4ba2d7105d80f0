"""The context store (in this version: its snapshot format)."""
