"""One vendor each."""
