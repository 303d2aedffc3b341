"""Names in a configuration that the verifier has to tell apart; tests hold them to those of the engine.

Written down here so that a look at a store does not load what computes one.
"""

from __future__ import annotations

__all__ = ["ADDITIVE", "BLIND", "LOOKING"]

ADDITIVE = frozenset({"ease", "gram", "graphfilter"})  # models that compute on the CPU, and have no such setting
BLIND = frozenset({"hash", "random", "whole"})  # partitions that look at no data
LOOKING = frozenset({"bekm", "blpa", "ibp", "inbp", "ubp"})  # partitions that remember what they looked at
