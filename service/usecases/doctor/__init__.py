"""What may be wrong with an installation: small checks that each return findings, and write nothing."""
