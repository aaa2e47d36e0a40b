"""What the methods that calibrate one probability at a time share.

``questions``: which log-odds and outcomes a map is fitted to (P(class 1), the predicted
class against the rest, every class against the rest). ``maps``: a calibrator made of such
maps, fitted and applied. ``curves``: maps that are lists of numbers. ``logistic``: maps whose
log-odds are linear in features. ``vectors``: from calibrated probabilities to rows.
"""
