"""How the arrays of a source are read: arrays in, readings or a refusal out.

``proposal`` is the whole of it. Scores are those that options or names tell
(``named_scores``), else those that only one reading of the values leaves
(``unnamed_scores``, ``sums_of_scores``); labels are found for each (``label_search``).
``score_refusals`` and ``ranked_scores`` say what is no score of a class.
"""
