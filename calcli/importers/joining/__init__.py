"""Arrays of several files, or several rows, put together: columns in, columns out.

``join`` makes one data set of shards; ``gold`` adds labels of a file of their own, by
ids; ``votes`` makes a row of each question that was answered several times;
``named_columns`` puts the columns that options name under their role; ``missing``
leaves out rows that lack a value. ``provenance`` tells which calibrators were applied.
"""
