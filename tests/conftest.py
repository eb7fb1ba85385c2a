"""What several test modules share."""

import sys
from pathlib import Path

# tests are imported by file, not as a package: let them find the brute force beside them
sys.path.insert(0, str(Path(__file__).parent))
