"""What is shown in a terminal or written to a log."""
