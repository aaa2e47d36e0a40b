"""One module per file format. ``calcli.importers.formats.reader`` says what each declares."""
