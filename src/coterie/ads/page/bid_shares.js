"use strict";
/*
 * The distributions of an advertiser's wins and cost by bid, beside those of its segment.
 *
 * coterieBidShares({ grid, symbol }) wires bid_shares.html. show(shares, beside) draws
 * { wins, cost }, each { own, segment, distance, bid }: two c.d.f.s on the grid, their
 * Kolmogorov–Smirnov distance and the bid where they are so far apart; null hides them. beside is the
 * name of the second line, "segment" or "all".
 */
const coterieBidShares = (() => {
  const { interpolate, percent, tick } = coterieNumbers;
  const find = (id) => document.getElementById(id);
  const percentTick = (share) => `${Math.round(100 * share)}%`;

  function bidShares({ grid, symbol }) {
    const money = (number) => coterieNumbers.money(number, symbol);
    let shown = null;
    const panels = ["wins", "cost"].map((name) => ({
      name,
      chart: coterieCharts.curveChart(find(`${name}-below`), {
        grid,
        label: `Share of ${name} by bid, of the advertiser and beside it`,
        height: 200,
        ticks: 4,
        leastTickLength: 5,
        bidTitle: `bid (CPM, ${symbol.trim() || "currency units"})`,
        formatBid: tick,
        formatTick: percentTick,
        onHover: (bid) => point(bid),
      }),
    }));

    /** Read both charts at a bid, or where each has its largest distance. */
    function point(bid) {
      if (!shown) return;
      for (const { name, chart } of panels) {
        const { own, segment, bid: widest } = shown[name];
        const at = bid ?? widest;
        const [one, other] = [own, segment].map((curve) => percent(interpolate(grid, curve, at)));
        const text = `at ${money(at)}: ${one}, ${shown.beside} ${other}`;
        chart.point(at, text);
        find(`${name}-below-said`).textContent = `· ${text}`;
      }
    }

    function show(shares, beside) {
      shown = shares && { ...shares, beside };
      find("bid-shares").hidden = !shown;
      if (!shown) return;
      for (const { name, chart } of panels) {
        const { own, segment, bid } = shown[name];
        const [low, high] = [own, segment].map((curve) => interpolate(grid, curve, bid));
        const lines = [
          { kind: "segment", label: beside, values: segment },
          { kind: "main", label: "own", values: own },
        ];
        chart.show({ lines, band: null, marks: [], gap: { bid, low, high }, top: 1 });
      }
      const [wins, cost] = ["wins", "cost"].map((name) => shares[name].distance.toFixed(3));
      const isAlone = beside !== "segment";
      const others = isAlone ? "those of all advertisers" : "its segment’s";
      find("bid-shares-title").textContent = `Its bids beside ${others}`;
      find("bid-shares-words").textContent =
        "The share of all wins, and of their cost, with a bid of at most that on the axis; the other " +
        `line is that of all ${isAlone ? "advertisers" : "members"} together. The Kolmogorov–Smirnov ` +
        `distance, the largest gap over all bids, is ${wins} for wins and ${cost} for cost: 0 is the ` +
        "same distribution, 1 two that do not overlap.";
      point(null);
    }

    return Object.freeze({ show });
  }

  return bidShares;
})();
