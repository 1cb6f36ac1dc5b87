"""What follows from the rows of a run: scores, bounds, what is missing and why, signs of trouble. All pure."""
