"""`python -m polaug` is the command `polaug`."""

import sys

from polaug.cli import main

if __name__ == "__main__":  # worker processes import this file too
    sys.exit(main())
