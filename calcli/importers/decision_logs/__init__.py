"""Logs of decision models as bundles: records of JSON in, a group for every question out.

``logs`` recognises and reads a log, with the labels of another file (``gold_labels``);
``question_bundles`` writes its bundles, and ``log_remarks`` says what was read. The rows
of its questions are made in ``calcli/decisions``.
"""
