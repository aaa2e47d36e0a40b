"""The HTML report: what was evaluated, in sentences, figures and tables."""
