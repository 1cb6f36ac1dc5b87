"""The sweep file."""
