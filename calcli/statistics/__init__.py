"""Pure functions of arrays: the laws behind what is said about rows."""
