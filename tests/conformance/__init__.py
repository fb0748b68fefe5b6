"""The public conformance suite of the protocol, run against our server."""
