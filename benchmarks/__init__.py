"""What measures speed and quality; never run by the test suite."""
