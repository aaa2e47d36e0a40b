"""Evaluation: metrics of every calibrator on every bundle, comparisons and verdicts."""
