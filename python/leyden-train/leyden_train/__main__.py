"""Runs the program as `python -m leyden_train`."""

import sys

from .cli import main

sys.exit(main())
