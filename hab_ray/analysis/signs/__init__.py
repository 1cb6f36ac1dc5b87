"""The signs of trouble that a run's own data can show; `tables.trust.findings` lists what they find."""
