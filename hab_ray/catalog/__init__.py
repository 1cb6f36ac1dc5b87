"""Models, prices and vendors: the data and the code that reads it."""
