"""Purges: content is removed for good, with everything that was made of it."""
