"""calcli's own file formats, bundles (HDF5) and artifacts (JSON), and the one way to
write any output.
"""
