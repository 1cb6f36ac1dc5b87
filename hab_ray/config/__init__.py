"""The sweep file, its sections and the preregistered analysis."""
