"""Readers of logs of evaluation harnesses: where each keeps questions and answers."""
