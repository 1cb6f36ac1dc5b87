"""Finds out what stands between a machine and the vendors, and what vendors do otherwise than the simulator.

`machine` and `endpoints` look at what is there, without a key and without a call. `examination` makes one call of each
kind that a sweep will make, twice: at the vendors, through a `tap` that records every exchange, and at a simulator in
this process. `comparison` names what differs between the two recordings. So the simulator itself is the reference: what
it answers to a request is what the code believes that the vendor answers.
"""
