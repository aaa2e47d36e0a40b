"""Files that are ours: bundles (HDF5), artifacts (JSON), and the one way to write any output."""
