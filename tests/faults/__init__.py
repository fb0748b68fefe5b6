"""What happens when things die: harnesses that the tests run a little, and `benchmarks/faults.py` at length."""
