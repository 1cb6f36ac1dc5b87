"""The online engine: sends calls under rate limits and a budget as they come in, and stores each reply."""
