"""The worker: the child process in which TRL trains."""
