"""One module per file format, registered by ``calcli.importers.formats.reader``."""
