"""Export of calibrators for serving: the computation, traced once and written as NumPy,
ONNX or torch.
"""
