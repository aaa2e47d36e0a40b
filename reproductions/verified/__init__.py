"""What ../verified_calibration.py is made of: measures, experiments, claims, figures.

It uses the public Python API of calcli (``fit``, ``predict_proba``, ``params``); no command imports it.
"""
