"""Importing saved scores: files of others in, bundles out.

``formats`` tells what a file is and knows the ``readers``, one file each; a reader lists the arrays of its file;
``array_names`` tells what they are by their names, ``labelled_scores`` checks them; ``import_scores`` goes from
beginning to end, splits and writes bundles and tells of them. A new format is one module in ``readers``.
"""
