"""Commands that show what came out of a run, or hand it on."""
