"use strict";
/*
 * Small charts of all segments, read together at one bid.
 *
 * coterieSegmentCharts({ grid, symbol, segments }) draws them; segments are { name,
 * median_price, curves }. That of place p goes into the elements segment-p-win and
 * segment-p-cost, and its values at the bid into segment-p-win-said and segment-p-cost-said.
 * follow(bid) sets the bid at which they are read while nothing is pointed at.
 */
const coterieSegmentCharts = (() => {
  const { interpolate, percent, tick } = coterieNumbers;
  const find = (id) => document.getElementById(id);

  function segmentCharts({ grid, symbol, segments }) {
    const money = (number) => coterieNumbers.money(number, symbol);
    const moneyTick = (number) => symbol + tick(number);
    const percentTick = (share) => `${Math.round(100 * share)}%`;
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

  return segmentCharts;
})();
