"""Playing outside training: one episode loop, batched, and an evaluation child that plays before and after a run."""
