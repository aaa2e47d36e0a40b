"""Bundles from readings: readings in, checked rows and files of bundles out.

``bundles`` builds one (``imported``): labels as class indices (``labels``,
``word_labels``, ``row_labels``), scores of pixels and tokens as rows (``class_axis``,
``positions``), several labels a row (``per_label``); ``confidences`` builds one of
confidences. ``contradictions`` and ``logged_predictions`` refuse what values, labels or
logs deny; ``carried_columns`` keeps what ``apply`` writes again; ``dealing`` splits rows
into groups and ``writing`` writes them.
"""
