"""Metrics and their statistics: pure functions of row tables and of plain arrays."""
