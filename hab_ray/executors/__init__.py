"""Executors, which complete calls and settle shards for the driver: their protocol, and all that need no Ray.

Start reading at `protocol`, which describes the design.
"""
