"""The online engine: sends calls as they come, under rate limits and a budget, and stores each reply."""
