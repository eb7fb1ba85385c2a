"use strict";
/* Scales of charts, round ticks on them, and bids as precise as a scale can show them. */
const coterieScales = (() => {
  /** A map from data to pixels, linear or logarithmic, with its inverse. */
  function scale(from, to, start, end, logarithmic = false) {
    const bend = logarithmic ? Math.log : (value) => value;
    const unbend = logarithmic ? Math.exp : (value) => value;
    const span = bend(to) - bend(from) || 1;
    const place = (value) => start + ((bend(value) - bend(from)) / span) * (end - start);
    place.invert = (pixel) => {
      const share = Math.min(1, Math.max(0, (pixel - start) / (end - start)));
      return unbend(bend(from) + share * span);
    };
    return place;
  }

  /** The scale of the bids: logarithmic if they span more than a factor of 20. */
  function wantsLogarithm(grid) {
    return grid[0] > 0 && grid[grid.length - 1] / grid[0] > 20;
  }

  function bidScale(grid, start, end) {
    return scale(grid[0], grid[grid.length - 1], start, end, wantsLogarithm(grid));
  }

  /** Round a bid to the power of ten below 1/500 of the axis, the precision of pointing. */
  function roundedBid(bid, grid) {
    const place = bidScale(grid, 0, 500);
    const at = Math.min(place(bid), 499);
    const step = 10 ** Math.floor(Math.log10(place.invert(at + 1) - place.invert(at)));
    return Number((Math.round(bid / step) * step).toPrecision(12));
  }

  /** The next bid in a direction (1 or -1): 1/100 of the axis away, beyond the axis 1/100 of the bid. */
  function nextBid(bid, grid, direction) {
    const place = bidScale(grid, 0, 100);
    const at = Math.min(99, Math.max(0, place(bid)));
    const beyond = bid > grid[grid.length - 1];
    const step = beyond ? bid / 100 : place.invert(at + 1) - place.invert(at);
    const round = 10 ** Math.floor(Math.log10(step));
    const next = Number((Math.round((bid + direction * step) / round) * round).toPrecision(12));
    return next > 0 ? next : bid;
  }

  /** The smallest step of 1, 2 or 5 times a power of ten with at most the given number in a span. */
  function roundStep(span, most) {
    const least = (span / most) * 0.999;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].find((factor) => factor * power >= least) * power;
  }

  function multiples(step, first, last) {
    const values = [];
    for (let i = first; i <= last; i += 1) values.push(Number((i * step).toPrecision(12)));
    return values;
  }

  /** Round values from 0 to top or the next one above it. */
  function ticksTo(top, most) {
    if (!(top > 0)) return [0, 1];
    const step = roundStep(top, most);
    return multiples(step, 0, Math.ceil((top / step) * 0.999));
  }

  /** Round values in [low, high] for a logarithmic axis: 1, 2, 5 of each decade, or fewer. */
  function logTicks(low, high, most) {
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const values = [];
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
        for (const factor of factors) {
          const value = Number((factor * 10 ** power).toPrecision(12));
          if (value >= low && value <= high) values.push(value);
        }
      }
      if (values.length <= most || factors.length === 1) return values;
    }
    return [];
  }

  function bidTicks(grid, most) {
    const [low, high] = [grid[0], grid[grid.length - 1]];
    if (wantsLogarithm(grid)) return logTicks(low, high, most);
    const step = roundStep(high - low, most);
    return multiples(step, Math.ceil(low / step), Math.floor(high / step));
  }

  /** The bid after an arrow key: 1/50 of the axis away, or an end of it; null for other keys. */
  function bidByKey(key, bid, grid) {
    const ends = [grid[0], grid[grid.length - 1]];
    const steps = bidScale(grid, 0, 50);
    const moves = {
      ArrowRight: 1,
      ArrowUp: 1,
      ArrowLeft: -1,
      ArrowDown: -1,
      PageUp: 5,
      PageDown: -5,
    };
    if (key === "Home") return ends[0];
    if (key === "End") return ends[1];
    return key in moves ? steps.invert(steps(bid) + moves[key]) : null;
  }

  return Object.freeze({ bidByKey, bidScale, bidTicks, logTicks, nextBid, roundedBid, scale, ticksTo });
})();
