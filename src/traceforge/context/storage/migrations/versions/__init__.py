"""The migrations of the database: each file is one step."""
