"""The heavy loops, in NumPy and for CUDA in torch, and the choice between them."""
