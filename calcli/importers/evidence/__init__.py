"""What the values of arrays prove, whatever their names are.

Arrays in, statements out. ``kinds``: probabilities, their logarithms, or other real
numbers. ``classes`` and ``label_evidence``: values that are classes, and whether they
follow the scores as labels do, or have the largest score as predictions. ``signs``: the
least score is the label, as of losses. ``lookalikes``: what only looks like scores. All
of these look at all values, in ``blocks``, and know of no names, files or options.

``source_arrays`` asks them, once for each array of a source; ``looks`` is a guess from
the first values, for advice.
"""
