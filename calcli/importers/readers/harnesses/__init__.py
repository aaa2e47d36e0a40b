"""Readers of what evaluation harnesses log: plug-ins, named in pyproject.toml as those of others are in theirs."""
