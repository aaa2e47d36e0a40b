"""Methods to compare with, one class with a ``title`` per file, as in
``calcli/methods``.
"""
