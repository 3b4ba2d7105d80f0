"""Capture: every call an application makes is seen, and the application notices nothing."""
