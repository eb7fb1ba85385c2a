"""
Which expert is the odd one out?
================================

Nine people sort 240 customers into four groups. Six of them are careful. Two use the same list,
which has nothing to do with the customers. One answers at random. We do not know who is who.
"""

# %%
# The votes
# ---------
# The names of the groups differ between people and do not matter.

import numpy as np

from coterie import PartitionAgreementDisplay, RobustConsensus

rng = np.random.default_rng(3)
truth = np.repeat([0, 1, 2, 3], [100, 70, 40, 30])


def sorted_by(person, groups, mistakes):
    """Return the groups with a share of mistakes, under names that only this person uses."""
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
# The consensus compares people, and then groups of people. People form a camp if they agree better
# than chance.

est = RobustConsensus(4, random_state=0).fit(P)
print(est.dissent_.in_words())
for person, camp, weight, agreement in zip(
    votes, est.partition_groups_, est.partition_weights_, est.partition_agreement_, strict=True
):
    print(f"{person:5} camp {camp}  votes: {weight:.0f}  agreement {agreement:5.2f}")

# %%
# The six careful people vote. Gus and Hal agree with each other, so they form a camp, but a smaller
# one. Ivy agrees with none of the others.

PartitionAgreementDisplay.from_estimator(est, names=list(votes))

# %%
# If Gus and Hal are the majority, they decide. The rule finds out who agrees, not who is right.

Q = P[:, [0, 6, 7]]
alone = RobustConsensus(4, random_state=0).fit(Q)
dict(zip(("Ada", "Gus", "Hal"), alone.partition_weights_.tolist(), strict=True))
