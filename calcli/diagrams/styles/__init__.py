"""Diagram styles, one per file: numbers, picture, terminal drawing and table of each."""
