"""Statistical tests and estimators, as pure functions of arrays."""
