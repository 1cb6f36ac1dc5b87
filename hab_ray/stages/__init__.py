"""The paper's method, one file a step: generate, validate, select, respond, judge.

A stage is pure. `requests` turns rows into calls, `parse` turns a row and what came back into the next row.
Neither does I/O, reads a clock or draws unseeded numbers.
"""
