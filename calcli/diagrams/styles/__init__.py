"""One diagram style a file: numbers, picture, terminal drawing and table of each."""
