"""`python -m everindex` and the command `everindex`."""

from service.cli.main import main

if __name__ == "__main__":
    main()
