"""One module per family of formats: bytes in, a document out. They run in a process without rights (`sandbox`)."""
