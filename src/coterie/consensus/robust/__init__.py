"""RobustConsensus: camps of agreeing partitions, candidate answers, and the choice of one."""
