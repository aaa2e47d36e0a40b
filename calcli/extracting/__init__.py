"""Running a model over inputs and keeping its scores."""
