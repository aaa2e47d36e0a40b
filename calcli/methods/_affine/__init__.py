"""Softmax of an affine map of the scores.

Vector, matrix, Dirichlet and structured scaling.
"""
