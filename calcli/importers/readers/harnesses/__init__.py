"""Readers of logs of evaluation harnesses: plug-ins, declared in pyproject.toml."""
