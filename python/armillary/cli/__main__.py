"""`python -m armillary.cli`."""

import sys

from . import main

sys.exit(main())
