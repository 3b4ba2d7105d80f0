"""What `make docs` writes from the table of operations."""
