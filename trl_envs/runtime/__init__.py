"""Starts, awaits, watches and stops processes; knows nothing of reinforcement learning."""
