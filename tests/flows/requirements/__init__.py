"""The rows of `test_specifications.py`, by specification."""
