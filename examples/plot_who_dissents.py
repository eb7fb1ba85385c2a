"""
Which expert is the odd one out?
================================

Nine people sort 240 customers into four groups. Six of them are careful, two copied from one
another a list that has nothing to do with the customers, and one could not be bothered. Nobody
tells us who is who.
"""

# %%
# The votes
# ---------
# Names of the groups differ from person to person, and do not matter.

import numpy as np

from coterie import PartitionAgreementDisplay, RobustConsensus

rng = np.random.default_rng(3)
truth = np.repeat([0, 1, 2, 3], [100, 70, 40, 30])


def sorted_by(person, groups, mistakes):
    """The groups with a share of mistakes, under names of the person's own."""
    wrong = rng.random(len(groups)) < mistakes
    labels = np.where(wrong, rng.integers(4, size=len(groups)), groups)
    return [f"{person}'s {'ABCD'[label]}" for label in labels]


careful = {"Ada": 0.1, "Ben": 0.15, "Cleo": 0.2, "Dan": 0.2, "Eve": 0.25, "Finn": 0.3}
the_list = rng.integers(4, size=len(truth))
votes = {person: sorted_by(person, truth, mistakes) for person, mistakes in careful.items()}
votes["Gus"] = sorted_by("Gus", the_list, 0.1)
votes["Hal"] = sorted_by("Hal", the_list, 0.1)
votes["Ivy"] = sorted_by("Ivy", truth, 1.0)
P = np.array(list(votes.values())).T
P[:2]

# %%
# The camps
# ---------
# The consensus compares every two of the nine. Agreement is the adjusted Rand index, and the
# question asked of it is whether chance alone would give as much.

est = RobustConsensus(4, random_state=0).fit(P)
print(est.dissent_.in_words())
for person, camp, weight, agreement in zip(
    votes, est.partition_groups_, est.partition_weights_, est.partition_agreement_, strict=True
):
    print(f"{person:5} camp {camp}  votes: {weight:.0f}  agreement {agreement:5.2f}")

# %%
# Six decide. Gus and Hal agree with each other as well as any two of the careful do, which
# makes them a camp and not a reason to believe them. Ivy agrees with nobody.

PartitionAgreementDisplay.from_estimator(est, names=list(votes))

# %%
# And if Gus and Hal had been the majority? Then they would have decided. The rule finds out who
# agrees, not who is right.

Q = P[:, [0, 6, 7]]
alone = RobustConsensus(4, random_state=0).fit(Q)
dict(zip(("Ada", "Gus", "Hal"), alone.partition_weights_.tolist(), strict=True))
