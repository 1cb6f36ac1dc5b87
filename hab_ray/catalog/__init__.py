"""Models, prices, vendors: data, and what reads it."""
