"""Hypothesis profiles; HYPOTHESIS_PROFILE=nightly chooses the long one."""

import os
import signal

from hypothesis import settings

settings.register_profile("ordinary", deadline=None, max_examples=500, print_blob=True)
settings.register_profile(
    "nightly", parent=settings.get_profile("ordinary"), max_examples=10_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))

# Started in the background, a process is made to ignore these, and so are all that it
# starts; tests that send them would wait for ever.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.SIG_DFL)
