"""The commands: parse, call, display."""
