"""What can go wrong and is not a wrong argument."""

from __future__ import annotations


class FleetError(RuntimeError):
    """Base of all errors of this package that are not about arguments."""


class StartError(FleetError):
    """Workers cannot be started; the message has the resource manager's own words."""


class ClosedError(FleetError):
    """The cluster is closed, or has failed, and cannot do this any more."""
