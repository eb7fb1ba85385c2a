"""Consensus functions beside the flagship, all with the contract of ``consensus_contract``."""

from coterie.consensus.least_squares import L2Consensus
from coterie.consensus.one_hot import OneHotKMeans

__all__ = ["L2Consensus", "OneHotKMeans"]
