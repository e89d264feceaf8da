"""What holds for all tests."""

import os

from hypothesis import settings

# The same examples each time, so that a change which fails, fails for whoever tries it. The long tests look
# for others.
settings.register_profile("steady", derandomize=True)
if not os.environ.get("MAINSTEM_LONG_TESTS"):
    settings.load_profile("steady")
