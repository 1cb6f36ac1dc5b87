"""Rehearsals: run a sweep against the simulator, and compare its results with the truth planted there.

`staging` points a sweep at the simulator, `profile` configures the simulator, `place` separates simulated replies from
paid ones, `comparison` compares results with the planted truth, and `perform` runs all of it.
"""
