"""
What can be forecast for an advertiser with thirty bids?
========================================================

A market has many small advertisers. One of them made about thirty bids in six days and asks what it
would win at another bid. Its own auctions say little. Similar advertisers can help, if we can find
them.
"""

# %%
# The market
# ----------
# The market is simulated, so the truth is known: six segments, a tenth of the texts wrong, and a
# twentieth of the advertisers in no segment. The log is written to Parquet files, and embedded
# DuckDB counts it.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from coterie import ads

folder = Path(tempfile.mkdtemp())
market = ads.simulate_logs(ads.MarketSettings(advertisers=300, segments=6, seed=4), folder / "m")
logs = ads.open_logs(market.folder)
histograms, texts = ads.read_histograms(logs), ads.read_descriptions(logs)
print(f"{market.rows:,} auctions; {histograms.shape[0]} advertisers, {histograms.shape[1]} days")

# %%
# Segments
# --------
# Texts, win-rate curves, cost curves and auctions give four views of similarity with different
# errors. The segments start from the consensus of the views.

model = ads.AdForecaster(n_segments=(5, 6, 8), origins=1).fit(histograms, texts)
for segment in model.segments_:
    price = segment.median_price / 1e6
    print(f"{segment.size:4} advertisers, half won at {price:.2f}: {segment.name}")
print(model.agreement_.sentence)

# %%
# Compare with the true segments:

from coterie.inspection.scores import adjusted_rand_index

truth = pq.read_table(market.truth).to_pydict()
planted = dict(zip(truth["advertiser_id"], truth["segment"], strict=True))
kinds = np.array([planted[str(name)] for name in model.advertisers_])
print(f"adjusted Rand index {adjusted_rand_index(kinds, model.labels_):.2f}")

# %%
# One small advertiser
# --------------------
# The curve from its own auctions (dashed) ends at the bids it made. The forecast starts from the
# curves of its segment and follows its own auctions where there are any. The band is the 90%
# interval of the share won on one day.

small = int(np.argmin(np.abs(model.observations_ - 30)))
name = str(model.advertisers_[small])
curve = model.curve(name)

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.fill_between(curve.bid, curve.low, curve.high, color="#0072B2", alpha=0.15, lw=0)
axes.plot(curve.bid, curve.win, color="#0072B2", label="forecast")
axes.plot(curve.bid, curve.segment, color="#E69F00", label="its segments")
axes.plot(curve.bid, curve.own, color="#666666", ls="--", label="own")
axes.axvline(model.bid_[small] / 1e6, color="#999999", lw=0.8)
axes.annotate("its mean bid", (model.bid_[small] / 1e6, 0.02), fontsize=8, color="#666666")
axes.set(xscale="log", xlabel="bid, USD per thousand impressions", ylabel="share of auctions won")
axes.set_title(f"{name}, {model.observations_[small]:.0f} bids", loc="left", fontsize=10)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)

# %%
# The forecast of the week after the log at 1.5 times its mean bid. The number of auctions is
# forecast too, so the intervals include that it is uncertain:

print(model.forecast(name, 1.5 * model.bid_[small] / 1e6, days=7, level=0.8))

# %%
# Are the forecasts better?
# -------------------------
# The last day, on which all bids change, is held out. The model ("dictionary") and other sources of
# curves forecast it from the six days before. Settings are chosen within these six days.

found = ads.evaluate(
    histograms, texts, settings=ads.SegmentSettings(n_segments=(5, 6, 8), origins=1)
)
thin = (found.observations >= 10) & (found.observations < 200)
for source in ("own", "global", "text+pooled", "robust+pooled", "boosting", "dictionary"):
    all_advertisers = found.measures(source, "impressions").wape
    few = found.measures(source, "impressions", thin).wape
    print(f"{source:14} error {all_advertisers:.1%}, of advertisers with 10 to 199 bids {few:.1%}")

# %%
# Are the intervals right?
# ------------------------
# Each should contain the actual value of as many advertisers as its level says, also if the number
# of auctions is forecast.

for interval in found.intervals:
    inside = found.coverage(interval, "impressions")
    print(f"supply {interval.supply:8} level {interval.level:.0%}: {inside:.0%} inside")
