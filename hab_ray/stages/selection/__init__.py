"""Duplicates, and the choice of diverse rows of a matrix by PCA and k-means."""
