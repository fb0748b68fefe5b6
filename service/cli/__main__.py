"""`python -m service.cli` is `everindex`, with the Python that runs it."""

from service.cli.main import main

if __name__ == "__main__":
    main()
