"""Reads the files that users give: one function per format, each within bounds of size, depth and time.

What cannot be used is a `BadInput`: cause and remedy, without the name of the file, because the caller knows by which
key or option the file was named.
"""
