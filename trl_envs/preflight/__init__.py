"""Whether a run can work, found out before it costs anything."""
