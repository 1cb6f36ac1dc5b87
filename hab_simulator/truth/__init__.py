"""What answers say and show: seeded, planted, and known."""
