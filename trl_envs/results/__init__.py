"""What came of a run: its directory, record, metrics and episodes, and the tables that show them."""
