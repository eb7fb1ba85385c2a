"""What the tests of the service share."""

from __future__ import annotations

import sys
from pathlib import Path

# tests are imported by file, not as a package: let them find the running service beside them
sys.path.insert(0, str(Path(__file__).parent))
