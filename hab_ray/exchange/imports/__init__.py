"""The published benchmark's wording and data, made into files that sweeps read.

Nothing of a checkout is executed: its Python files are parsed, and the methods that build prompts are followed on
paper, with placeholders for what they are given. What cannot be followed is an error with file and line, never a guess.
"""
