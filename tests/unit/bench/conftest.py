"""`bench` is a folder beside the package, not part of it: tests find it from the root of the repository."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
