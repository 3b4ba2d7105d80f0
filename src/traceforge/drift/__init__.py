"""What a suite with recordings of its own sends today, compared with what they hold."""
