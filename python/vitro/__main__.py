"""`python -m vitro`."""
import sys

from .cli import main

sys.exit(main())
