"""Hypothesis profiles; HYPOTHESIS_PROFILE=nightly chooses the long one."""

import os

from hypothesis import settings

settings.register_profile("ordinary", deadline=None, max_examples=500, print_blob=True)
settings.register_profile(
    "nightly", parent=settings.get_profile("ordinary"), max_examples=10_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))
