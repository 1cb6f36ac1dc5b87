"""The budget of a run: its single writer, and the clients through which engines reserve money."""
