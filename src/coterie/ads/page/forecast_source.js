"use strict";
/*
 * The answers of what_if.js, from POST /v1/forecast, /v1/bids and /v1/budgets.
 *
 * A curve is asked for once. Between its bids forecasts are interpolated, so that a moving slider
 * sends nothing; exact ones are asked for when it has rested for PAUSE milliseconds. A new question
 * cancels the one before it.
 */
const coterieForecastSource = (() => {
  const PAUSE = 120;

  /** settings: post (of service_calls.js). */
  function forecastSource({ post }) {
    let running = new AbortController();

    /** The JSON of an answer; null if another question took its place. */
    async function asked(wait, body) {
      running.abort();
      const { signal } = (running = new AbortController());
      if (wait) await new Promise((resolve) => setTimeout(resolve, wait));
      if (signal.aborted) return null;
      try {
        return await post("v1/forecast", body, signal);
      } catch (fault) {
        if (signal.aborted) return null;
        throw fault;
      }
    }

    async function forecast(question) {
      const answer = await asked(0, bodyOf(question));
      if (!answer) return null;
      const forecasts = answer.forecasts.map((one) => forecastOf(one, answer, question.day));
      return { ...answer, question, forecasts, exact: new Map(forecasts.map((one) => [one.bid, one])) };
    }

    async function refine(reply, bids) {
      if (!bids.length) {
        running.abort();
        return null;
      }
      const answer = await asked(PAUSE, bodyOf({ ...reply.question, bids }));
      for (const one of answer?.forecasts ?? []) {
        reply.exact.set(one.bid, forecastOf(one, answer, reply.question.day));
      }
      return answer && { ...reply, model: answer.model };
    }

    function bidFor({ one, day, goal, amount }) {
      return post("v1/bids", { ...bodyOf({ one, day }), [goal]: amount });
    }

    /** Money is planned for days from the date on, or from that after the log. */
    function plan({ one, day, budget, days, bid }) {
      const body = { ...bodyOf({ one, day, bids: bid }), budget, days };
      // auctions that were given are of the whole period
      if (day.supply !== undefined) body.supply = (day.supply * days) / (day.days ?? 1);
      return post("v1/budgets", body);
    }

    return Object.freeze({ forecast, refine, at, bidFor, plan, zeroBids: false });
  }

  function bodyOf({ one, bids, day }) {
    const body = one.newcomer ? { text: one.text } : { advertiser: one.id };
    body.bid = bids;
    if (day.kind === "date") body.day = day.date;
    if (day.kind === "days") body.days = day.days;
    if (day.supply !== undefined) body.supply = day.supply;
    return body;
  }

  function at({ exact, forecasts }, bid) {
    if (exact.has(bid)) return exact.get(bid);
    const between = coterieNumbers.readBetween(forecasts, bid);
    return between && { ...between, isRough: true };
  }

  function forecastOf(one, { supply, why }, day) {
    const impressions = figure(one.impressions, one.impressions_interval);
    // an expected number of auctions varies too, and then the interval is not that of a share
    const share = (number) => (day.supply > 0 ? number / supply : undefined);
    const remark = (one.remark ?? "").replace(/^[;\s]+/, "");
    return {
      bid: one.bid,
      supply,
      isRough: false,
      win: { value: one.win_rate, low: share(impressions.low), high: share(impressions.high) },
      cost: one.cost,
      impressions,
      spend: figure(one.spend, one.spend_interval),
      clicks: figure(one.clicks, one.clicks_interval),
      conversions: figure(one.conversions, one.conversions_interval),
      why: remark ? `${why}; ${remark}` : why,
      remark: remark && `${remark[0].toUpperCase()}${remark.slice(1)}.`,
    };
  }

  function figure(value, interval) {
    if (value === null) return null;
    return interval ? { value, low: interval[0], high: interval[1] } : { value };
  }

  return forecastSource;
})();
