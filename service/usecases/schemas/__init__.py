"""The schemas of the use cases' answers, as HTTP and the command line show them."""
