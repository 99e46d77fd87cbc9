"""What came of a run, as a page and as a picture."""
