"use strict";
/*
 * Curves read between their bids, and numbers as pages write them and as people type them. A
 * forecast is that of forecast_words.js.
 */
const coterieNumbers = (() => {
  // ---------------------------------------------------------------- forecasts

  /** The index of the last x at or below a value, at least 0 and before the last. */
  function pieceOf(xs, x) {
    let below = 0;
    let above = xs.length - 1;
    while (above - below > 1) {
      const middle = (below + above) >> 1;
      if (xs[middle] <= x) below = middle;
      else above = middle;
    }
    return below;
  }

  /** The value at x of the line through (xs[i], ys[i]); flat beyond both ends. */
  function interpolate(xs, ys, x) {
    const last = xs.length - 1;
    if (x <= xs[0]) return ys[0];
    if (x >= xs[last]) return ys[last];
    const i = pieceOf(xs, x);
    return ys[i] + ((x - xs[i]) / (xs[i + 1] - xs[i])) * (ys[i + 1] - ys[i]);
  }

  /** The forecast at a bid, on the line between its neighbours; null beyond the first and last. */
  function readBetween(forecasts, bid) {
    const bids = forecasts.map((at) => at.bid);
    if (bids.length < 2 || !(bid >= bids[0] && bid <= bids[bids.length - 1])) return null;
    const i = pieceOf(bids, bid);
    return { ...mixed(forecasts[i], forecasts[i + 1], (bid - bids[i]) / (bids[i + 1] - bids[i])), bid };
  }

  /** Two values of the same shape, their numbers mixed; texts are those of the first. */
  function mixed(one, other, share) {
    if (typeof one === "number") return one + share * (other - one);
    if (one === null || typeof one !== "object") return one;
    return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, mixed(value, other[name], share)]));
  }

  // less than this share of all impressions is no rise, but the rounding of a flat curve
  const LEAST_RISE = 1e-4;

  /**
   * The cost of the next thousand impressions, d spend / d impressions × 1000.
   *
   * It is the slope between the bid of the curve at or below the bid and the next one that wins
   * more; null if none does.
   */
  function marginalCost(curve, bid) {
    const now = curve[curve[curve.length - 1].bid <= bid ? curve.length - 1 : pieceOf(curve.map((at) => at.bid), bid)];
    const least = LEAST_RISE * Math.max(...curve.map((at) => at.impressions.value));
    const more = (at) => at.impressions.value - now.impressions.value;
    const next = curve.find((at) => at.bid > now.bid && more(at) > least);
    return next ? Math.max(0, (1000 * (next.spend.value - now.spend.value)) / more(next)) : null;
  }

  // ------------------------------------------------------------------ formats

  const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

  /** A number shortened by a letter for its size; null if it has none. */
  function shortened(number, sizes, significant) {
    const found = sizes.find(([size]) => number >= size);
    return found ? digits(number / found[0], significant) + found[1] : null;
  }

  // of the ends of an interval
  const ROUNDING = 1e-9;

  const LARGE = [
    [1e9, "B"],
    [1e6, "M"],
  ];

  function count(number) {
    if (number > 0 && number < 0.01) return "<0.01";
    if (number >= 1e6) return shortened(number, LARGE, 3);
    if (number >= 1e4) return grouped.format(Number(number.toPrecision(4)));
    return number >= 10 ? grouped.format(number) : digits(number, 2);
  }

  /**
   * Both ends of an interval as [value, text]. Counts are whole numbers: of their intervals these are
   * the first and the last count inside, and only one if there is no other.
   */
  function ends({ low, high }, format) {
    if (low === undefined) return [];
    if (format !== count) return [low, high].map((end) => [end, format(end)]);
    const first = low < 10 ? Math.ceil(low - ROUNDING) : low;
    const last = high < 10 ? Math.floor(high + ROUNDING) : high;
    const inside = [[low, count(first)], [high, count(last)]];
    return first >= last ? inside.slice(1) : inside;
  }

  /** An interval as text. */
  function span(interval, format) {
    return ends(interval, format)
      .map(([, text]) => text)
      .join("–");
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
    return shortened(number, [...LARGE, [1e3, "k"]], 4) ?? digits(number, 4);
  }

  function percentTick(share) {
    return `${Math.round(100 * share)}%`;
  }

  /** Days from the first to the last, in words. */
  function period(first, last) {
    const days = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });
    return days.formatRange(new Date(first), new Date(last)).replace(/^(\d+)\s–\s(\d+ )/, "$1–$2");
  }

  // ------------------------------------------------------------------- typing

  const PLAIN = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const DECIMAL_COMMA = /^[+-]?(\d+,\d*|,\d+)$/;
  const AMBIGUOUS = /^[1-9]\d{0,2},\d{3}$/;
  // groups of three digits need a second sign that tells them from decimals, except for blanks
  const GROUPS = [
    [",", /^[1-9]\d{0,2}((,\d{3}){2,}(\.\d*)?|(,\d{3})+\.\d*)$/],
    [".", /^[1-9]\d{0,2}((\.\d{3}){2,}(,\d*)?|(\.\d{3})+,\d*)$/],
    [/[ \u00a0\u202f'’]/g, /^[1-9]\d{0,2}([ \u00a0\u202f'’]\d{3})+([.,]\d*)?$/],
  ];
  const UNIT = "[\\p{Sc}]|[A-Za-z]{2,3}\\p{Sc}?";
  const AMOUNT = new RegExp(`^(${UNIT})?\\s*([-+\\d.,][^\\p{Sc}]*?)\\s*(${UNIT})?$`, "u");
  const CODES = { $: "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "CN¥": "CNY", US$: "USD" };

  /**
   * A number as people type it: { value }, or { fault } with what is unclear about it.
   *
   * A comma is accepted if it has one meaning: "2,80" is 2.8 and "1,000,000" a million, but "1,000"
   * can be either and is refused. A single point is a decimal point.
   */
  function entered(text) {
    const given = text.trim();
    if (AMBIGUOUS.test(given)) {
      const [thousands, fraction] = [given.replace(",", ""), given.replace(",", ".")];
      return { fault: `“${given}” may mean ${thousands} or ${fraction}: write one of them` };
    }
    const plain = plainly(given);
    const value = plain === null ? NaN : Number(plain);
    return Number.isFinite(value) ? { value } : { fault: "" };
  }

  /** The number as a program writes it; null if the text is not a number. */
  function plainly(given) {
    if (PLAIN.test(given)) return given;
    const [mark] = GROUPS.find(([, shape]) => shape.test(given)) ?? [];
    if (mark) return given.replaceAll(mark, "").replace(",", ".");
    return DECIMAL_COMMA.test(given) ? given.replace(",", ".") : null;
  }

  /** An amount as people type it, with or without a currency: that of entered, and its currency. */
  function enteredMoney(text) {
    const [, before, number, after] = AMOUNT.exec(text.trim()) ?? [];
    const unit = (before ?? after ?? "").toUpperCase();
    if (!unit || (before && after)) return entered(text);
    return { ...entered(number), currency: CODES[unit] ?? unit };
  }

  return Object.freeze({
    ...{ count, ends, entered, enteredMoney, interpolate, marginalCost, money, percent, percentTick },
    ...{ period, readBetween, signed, span, tally, tick },
  });
})();
