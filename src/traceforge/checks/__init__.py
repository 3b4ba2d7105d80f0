"""Checks of behaviour that may vary: test files, assertions, runs, and their results."""
