"use strict";
/*
 * Charts that compare segments by bid.
 *
 * coterieSegmentCharts.cards({ grid, symbol, segments }) draws small charts of all segments, read
 * together at one bid; segments are { name, median_price, curves }. That of place p goes into the
 * elements segment-p-win and segment-p-cost, and its values at the bid into segment-p-win-said and
 * segment-p-cost-said. follow(bid) sets the bid at which they are read while nothing is pointed at.
 *
 * bidShares({ grid, symbol }) wires bid_shares.html: the distributions of an advertiser's wins and
 * cost by bid, and those of its segment. show(shares, beside) draws { wins, cost }, each { own,
 * segment, distance, bid }: two c.d.f.s on the grid, their Kolmogorov–Smirnov distance and the bid
 * where they are so far apart; null hides them. beside is the name of the second line, "segment" or
 * "all".
 */
const coterieSegmentCharts = (() => {
  const { interpolate, percent, percentTick, tick } = coterieNumbers;
  const { find } = coterieNodes;

  function cards({ grid, symbol, segments }) {
    const money = (number) => coterieNumbers.money(number, symbol);
    const moneyTick = (number) => symbol + tick(number);
    let usual = grid[grid.length >> 1];
    const kinds = [
      { name: "win", means: "share of auctions won", height: 128, ticks: 2, format: percentTick },
      { name: "cost", means: "price paid per thousand", height: 96, ticks: 3, format: moneyTick },
    ];
    const panels = [];

    function point(bid) {
      for (const { place, name, chart } of panels) {
        const value = interpolate(grid, segments[place].curves[name], bid);
        const text = name === "win" ? percent(value) : money(value);
        chart.point(bid, `at ${money(bid)}: ${text}`);
        find(`segment-${place}-${name}-said`).textContent = text;
      }
      find("segment-bid").textContent = money(bid);
    }

    for (const { name, means, height, ticks, format } of kinds) {
      const top = Math.max(...segments.flatMap(({ curves }) => curves[name]));
      segments.forEach((segment, place) => {
        const chart = coterieCharts.curveChart(find(`segment-${place}-${name}`), {
          grid,
          label: `${segment.name}: ${means} by bid`,
          height,
          ticks,
          leastTickLength: 5,
          formatBid: moneyTick,
          formatTick: format,
          onHover: (bid) => point(bid ?? usual),
        });
        const others = segments.filter((other) => other !== segment);
        const lines = others.map(({ curves }) => ({ kind: "context", values: curves[name] }));
        lines.push({ kind: "main", values: segment.curves[name] });
        const { median_price: median } = segment;
        chart.show({
          lines,
          top: name === "win" ? 1 : top,
          band: name === "win" ? segment.curves : null,
          marks: name === "win" ? [{ bid: median, label: `median ${money(median)}` }] : [],
        });
        panels.push({ place, name, chart });
      });
    }
    point(usual);
    return {
      follow(bid) {
        if (bid !== undefined && bid !== usual) point((usual = bid));
      },
    };
  }

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
      find("bid-shares-title").textContent = `Its bids next to ${others}`;
      find("bid-shares-words").textContent =
        "The share of all wins, and of their cost, with a bid of at most that on the axis; the other " +
        `line is that of all ${isAlone ? "advertisers" : "members"} together. The Kolmogorov–Smirnov ` +
        `distance, the largest gap over all bids, is ${wins} for wins and ${cost} for cost: 0 is the ` +
        "same distribution, 1 two that do not overlap.";
      point(null);
    }

    return Object.freeze({ show });
  }

  return Object.freeze({ bidShares, cards });
})();
