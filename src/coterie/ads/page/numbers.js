"use strict";
/*
 * Forecasts from curves, and numbers as pages write them.
 *
 * A curve set is { grid, win, low, high, cost, spendLow, spendHigh }: P increasing bids (CPM), and
 * at each the share of auctions won, the mean price paid per thousand impressions, and the ends of
 * the intervals of impressions and of spend per expected auction.
 */
const coterieNumbers = (() => {
  // ---------------------------------------------------------------- forecasts

  /** The value at x of the line through (xs[i], ys[i]); flat beyond both ends. */
  function interpolate(xs, ys, x) {
    const last = xs.length - 1;
    if (x <= xs[0]) return ys[0];
    if (x >= xs[last]) return ys[last];
    let below = 0;
    let above = last;
    while (above - below > 1) {
      const middle = (below + above) >> 1;
      if (xs[middle] <= x) below = middle;
      else above = middle;
    }
    const share = (x - xs[below]) / (xs[above] - xs[below]);
    return ys[below] + share * (ys[above] - ys[below]);
  }

  /**
   * Impressions = supply × win(bid) and spend = impressions × cost(bid) / 1000, a day.
   * The intervals grow in proportion to the supply.
   */
  function forecastAt(curves, bid, supply) {
    const at = (ys) => interpolate(curves.grid, ys, bid);
    const win = at(curves.win);
    const cost = at(curves.cost);
    return {
      bid,
      supply,
      win: { value: win },
      cost,
      impressions: {
        value: supply * win,
        low: supply * at(curves.low),
        high: supply * at(curves.high),
      },
      spend: {
        value: (supply * win * cost) / 1000,
        low: supply * at(curves.spendLow),
        high: supply * at(curves.spendHigh),
      },
      outside: bid < curves.grid[0] || bid > curves.grid[curves.grid.length - 1],
    };
  }

  // ------------------------------------------------------------------ formats

  const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

  function count(number) {
    if (number > 0 && number < 0.01) return "<0.01";
    for (const [size, letter] of [
      [1e9, "B"],
      [1e6, "M"],
    ]) {
      if (number >= size) return digits(number / size, 3) + letter;
    }
    if (number >= 1e4) return grouped.format(Number(number.toPrecision(4)));
    return number >= 10 ? grouped.format(number) : digits(number, 2);
  }

  /** A count, exact up to a million. */
  function tally(number) {
    return number < 1e6 ? grouped.format(number) : count(number);
  }

  /** An amount after its currency's symbol. */
  function money(number, symbol) {
    if (number > 0 && number < 0.0001) return `<${symbol}0.0001`;
    if (number >= 1000) return symbol + count(number);
    return symbol + (number >= 0.1 ? number.toFixed(2) : digits(number, 2));
  }

  function percent(share) {
    const size = Math.abs(100 * share);
    if (size > 0 && size < 0.01) return "<0.01%";
    return (share < 0 ? "−" : "") + (size >= 1 ? size.toFixed(1) : digits(size, 2)) + "%";
  }

  /** A share of 1 in percent, with its sign. */
  function signed(share) {
    return (share >= 0.0001 ? "+" : "") + percent(share);
  }

  /** Significant digits, without zeros at the end. */
  function digits(number, significant) {
    return String(Number(number.toPrecision(significant)));
  }

  /** Short enough for an axis: 1500 as 1.5k. */
  function tick(number) {
    for (const [size, letter] of [
      [1e9, "B"],
      [1e6, "M"],
      [1e3, "k"],
    ]) {
      if (number >= size) return digits(number / size, 4) + letter;
    }
    return digits(number, 4);
  }

  return Object.freeze({ count, forecastAt, interpolate, money, percent, signed, tally, tick });
})();
