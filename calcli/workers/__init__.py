"""Work spread over processes: of this machine, or of a Dask cluster."""
