"""Diverse rows of a matrix: PCA and k-means, in one process or in blocks."""
