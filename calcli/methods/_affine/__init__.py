"""Softmax of an affine map of the scores: vector, matrix, Dirichlet and structured
scaling.
"""
