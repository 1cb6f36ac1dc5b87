"""Files: the primitives, the store of paid replies, the lease, and the run folder."""
