"""The pages: each reads the query, calls a function of another room, and renders a view with a template."""
