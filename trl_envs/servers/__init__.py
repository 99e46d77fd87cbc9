"""Environment servers: where each environment's sessions come from."""
