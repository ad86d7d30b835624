"""`python -m kvec` is the command line."""

from kvec.doors.cli import main

if __name__ == "__main__":
    main()
