"""Domain objects as plain data for templates: pure, and tested without HTTP."""
