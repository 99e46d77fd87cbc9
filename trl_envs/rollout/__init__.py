"""Sessions with environment servers: one connection an episode."""
