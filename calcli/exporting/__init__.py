"""Calibrators for serving stacks: what a method computes, traced once and written as NumPy, ONNX or torch."""
