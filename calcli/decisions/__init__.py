"""Logs of decision models: answers to typed questions, with probabilities.

``answers`` finds the answers in a JSON record, ``labels`` what is right, ``log`` reads
whole logs, ``wire_confidence`` knows the formulas of the field ``confidence``,
``calibrate`` replaces the numbers of an answer. Nothing here needs h5py.
"""
