"""What a check file holds: its types, its reader with line and column, and its data sets."""
