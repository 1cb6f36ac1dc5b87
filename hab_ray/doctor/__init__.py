"""Checks a machine and its way to the vendors, and compares the vendors' behaviour with the simulator's.

`machine` and `endpoints` need no key and make no call. `examination` makes one call of each kind in a sweep, twice: to
the vendors, through a `tap` that records every exchange, and to a simulator in this process. `comparison` names the
differences between the two recordings. The simulator is the reference: its answer to a request is the answer that the
code expects of the vendor.
"""
