"""Live checks: approved requests are sent again, and what comes back is held against what was approved."""
