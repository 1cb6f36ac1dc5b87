"""A sweep against the simulator, and what it recovered of the truth planted there.

`staging` turns a sweep into the same sweep at the simulator, `profile` tells the simulator what to play, `place`
keeps simulated replies apart from paid ones, `comparison` sets its scores beside what was true, `perform` puts it
together.
"""
