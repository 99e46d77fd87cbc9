"""What a run is asked to be: schema, recipes, overrides, and the one place that runs Hydra."""
