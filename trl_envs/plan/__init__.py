"""How a run will be launched, decided before anything starts."""
