"""Import of saved scores: files of other programs in, bundles out.

``formats`` recognises the format of a file and picks one of the ``readers``, which lists the arrays of the file;
``array_names`` finds the role of each array by its name, ``labelled_scores`` checks them; ``import_scores`` runs the
whole import, splits the rows, writes and reports bundles. A new format is one module in ``readers``.
"""
