"""Plan + World -> Outcome. close is the only module that ends a session."""
