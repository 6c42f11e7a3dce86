"""Papers on private empirical risk minimisation, run again with dperm: evaluations, not private releases.

It adds the commands ``dperm reproduce`` and ``dperm curvature``, by entry points of the group ``dperm.commands``.
"""

__version__ = "0.1.0"
