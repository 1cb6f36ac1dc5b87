"""What completes calls and settles shards for the driver: the protocol, and every executor that needs no Ray.

`protocol` is where to begin: it carries the design.
"""
