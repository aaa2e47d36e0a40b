"""Importing saved scores: foreign files in, bundles out.

``formats`` tells what a file is, the module of its format lists its arrays, ``layout``
tells what they are by their names, ``convert`` checks them, ``job`` writes the bundles.
A new format is one module with a reader and one line in ``formats``.
"""
