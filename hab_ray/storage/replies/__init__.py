"""What was paid for: replies, their index, and what they cost."""
