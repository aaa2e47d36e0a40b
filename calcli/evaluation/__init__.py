"""What evaluate computes: metrics of every calibrator on every bundle, compared and judged.

Arithmetic only: results are plain dictionaries with the keys of the JSON output; nothing
here knows a console or a file format.
"""
