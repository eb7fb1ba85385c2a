"""
How much does it matter that lost auctions hide their price?
============================================================

In a second-price auction a bidder learns the market price only if it wins. If it loses, it learns
only that the price was above its bid. How wrong is an estimate of the market from won auctions
alone?
"""

# %%
# A market whose prices are all known
# -----------------------------------
# The iPinYou contest published every price that was paid, so the share of auctions that a bid wins
# is known. The licence does not allow to bundle these data. They are read from the folder in the
# environment variable ``COTERIE_DATA``. Without them this page uses an artificial market. The first
# printed line says which one is used.

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
# A bidder with incomplete information
# ------------------------------------
# The bidder bids around the median price. Its log contains prices only of won auctions. The
# Kaplan–Meier estimate uses wins and losses: for each price it needs the number of auctions with at
# least this price, and the number with exactly this price.


def bid_log(n_auctions):
    """Return the log of the bidder."""
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
    """Return the Kaplan–Meier win curve and the distribution of the prices paid."""
    seen = ads.read_histograms(ads.open_logs(ibis.memtable(log)), edges=price_edges(len(prices)))
    paid = np.cumsum(seen.dense().prices[0])
    return ads.own_curves(ads.evidence_of(seen))[0], paid / paid[-1]


log = bid_log(20_000)
survival, naive = two_estimates(log)
print(f"it won {np.mean(log['won']):.0%} of {len(log):,} auctions")

# %%
# Prices paid come only from auctions that were cheap enough to win. As an estimate of the market
# they are far too optimistic.

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
# At 1.5 times the median price:

bid = median * 3 // 2
for name, curve in (("in truth", truth), ("Kaplan–Meier", survival), ("prices paid", naive)):
    print(f"a bid of {bid} fen wins {curve[bid]:.0%} of the auctions: {name}")

# %%
# Do more auctions help?
# ----------------------
# This is the mean error over the prices up to three times the median. The Kaplan–Meier estimate
# converges to the truth, the other one does not.

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
# Kaplan–Meier assumes that bids are independent of prices. A bidder that bids more for better
# impressions, for which others also bid more, violates this, and its curve is biased. The
# benchmarks on real data have figures. A log with the minimum to win of lost auctions
# (``min_to_win_micros``) does not need the assumption.
