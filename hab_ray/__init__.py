"""HumanAgencyBench as a distributed batch-processing system.

Importing this package imports neither Ray nor a vendor's SDK: both are imported where a sweep needs them.
"""

__version__ = "0.1.0"
