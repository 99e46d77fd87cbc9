"""The model's side, shared by preflight, training and evaluation."""
