"""Which checks run, on which answers, and with which result."""
