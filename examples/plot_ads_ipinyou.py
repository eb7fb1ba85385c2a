"""
How much does it matter that lost auctions hide their price?
============================================================

A bidder in a second-price auction learns the market price where it wins. Where it loses it learns
only that the price was above its bid. What does it get wrong about the market if it looks at its
wins alone?
"""

# %%
# A market whose prices are all known
# -----------------------------------
# The iPinYou contest published every price that was paid, so the share of auctions a bid wins is
# known. Its terms do not let this package carry the prices: they are read from the folder that the
# environment variable ``COTERIE_DATA`` names. Where they are not there, a made-up market takes
# their place; the first line printed says which of the two this page is about.

import ibis
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from coterie import ads
from coterie.ads.histograms.ipinyou import FEN, price_edges, price_histograms
from coterie.errors import DatasetUnavailableError

rng = np.random.default_rng(0)
try:
    market, industries = ads.load_ipinyou_histograms()
    chosen = "2259"
    title = f"iPinYou, advertiser {chosen}, {industries[chosen].lower()}"
except DatasetUnavailableError:
    cheap, dear = rng.lognormal(3.3, 0.6, 500_000), rng.lognormal(4.9, 0.6, 300_000)
    fen = np.concatenate([cheap, dear]).round().astype(int)
    market = price_histograms(["made up"], [np.bincount(fen[fen <= 300], minlength=301)])
    chosen, title = "made up", "a made-up market"

row = market.advertisers.tolist().index(chosen)
prices = market.dense().prices[row]
truth = ads.own_curves(ads.evidence_of(market))[row]
median = int(np.searchsorted(truth, 0.5))
print(f"{title}: {prices.sum():,.0f} auctions, half of them at {median} fen or less")

# %%
# A bidder who sees less
# ----------------------
# It bids around the median price. Its log has a price where it won, and none where it lost. The log
# is counted as any log is, and the win curve comes from wins and losses together: at each price,
# the auctions known to cost at least that much, and those that did cost it (Kaplan and Meier).


def bid_log(n_auctions):
    """What the bidder writes down."""
    price = rng.choice(len(prices), n_auctions, p=prices / prices.sum())
    bid = np.clip(rng.lognormal(np.log(median), 0.5, n_auctions).round(), 1, 300).astype(int)
    won = price <= bid
    return pa.table(
        {
            "advertiser_id": np.full(n_auctions, "bidder"),
            "day": np.full(n_auctions, "2026-03-02"),
            "bid_micros": bid * FEN,
            "won": won,
            "price_micros": pa.array(price * FEN, mask=~won),
        }
    )


def two_estimates(log):
    """The win curve by Kaplan and Meier, and the distribution of the prices paid."""
    seen = ads.read_histograms(ads.open_logs(ibis.memtable(log)), edges=price_edges(len(prices)))
    paid = np.cumsum(seen.dense().prices[0])
    return ads.own_curves(ads.evidence_of(seen))[0], paid / paid[-1]


log = bid_log(20_000)
survival, naive = two_estimates(log)
print(f"it won {np.mean(log['won']):.0%} of {len(log):,} auctions")

# %%
# The prices it paid are those of the auctions cheap enough to win. Taken for the market, they say
# that almost any bid wins almost always.

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
fen = np.arange(len(prices))
ax.step(fen, truth, where="post", color="black", lw=2.2, label="all prices (the truth)")
ax.step(fen, survival, where="post", color="#0072B2", label="Kaplan–Meier, wins and losses")
ax.step(fen, naive, where="post", color="#E69F00", label="prices paid, wins alone")
ax.set(xlabel="bid, fen per thousand impressions", ylabel="share of auctions won")
ax.set(xlim=(0, 300), ylim=(0, 1.02))
ax.set_title(title, loc="left", fontsize=10)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# At half as much again as the median price:

bid = median * 3 // 2
for name, curve in (("in truth", truth), ("Kaplan–Meier", survival), ("prices paid", naive)):
    print(f"a bid of {bid} fen wins {curve[bid]:.0%} of the auctions: {name}")

# %%
# Do more auctions help?
# ----------------------
# The mean error over the prices up to three times the median. One estimate comes nearer to the
# truth with every auction; the other comes nearer to something else.

sizes = [100, 300, 1_000, 3_000, 10_000, 30_000]
errors = np.array(
    [
        [np.abs(curve - truth)[: 3 * median].mean() for curve in two_estimates(bid_log(n))]
        for n in sizes
    ]
)

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.loglog(sizes, errors[:, 0], "o-", color="#0072B2", label="Kaplan–Meier")
ax.loglog(sizes, errors[:, 1], "o-", color="#E69F00", label="prices paid")
ax.set(xlabel="auctions in the log", ylabel="mean error of the win curve")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# One thing is taken for granted here: that what the bidder bids has nothing to do with the price.
# A bidder that bids more for better impressions, for which others bid more too, breaks it, and its
# curve is off even with wins and losses; the benchmarks on real data have the figures. A log with
# the minimum to win of lost auctions too (``min_to_win_micros``) needs no such assumption.
