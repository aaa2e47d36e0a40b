"""Hoki's parts: the noise and its scale (``search``), the fixed-point rounds (``rounds``)."""
