#!/usr/bin/env python3
"""Print the version of the package, whose home is src/coterie/__init__.py."""

import re
from pathlib import Path

source = Path(__file__).resolve().parents[1] / "src" / "coterie" / "__init__.py"
print(re.findall(r'^__version__ = "(.+)"$', source.read_text(encoding="utf-8"), re.MULTILINE)[0])
