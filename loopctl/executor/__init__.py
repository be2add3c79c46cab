"""Plan + World -> Outcome (`apply.execute`). `close` is the only module that ends a session."""
