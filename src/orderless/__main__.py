"""`python -m orderless`: the command line where no script is installed."""

import sys

from orderless.cli import main

if __name__ == "__main__":
    sys.exit(main())
