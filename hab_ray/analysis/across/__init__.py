"""Two runs beside each other: what they asked otherwise, what they share, and how far their subjects' scores differ."""
