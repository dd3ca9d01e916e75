"""`python -m undrift` is the command `undrift`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
