"""Plan, outcome or error -> text."""
