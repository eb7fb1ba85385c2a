"use strict";
/*
 * The answers of what_if.js, from POST /v1/forecast.
 *
 * At most one question runs, and only the latest one waits. A moving slider asks as
 * fast as the service answers, but at most every SPACING milliseconds. The last question is
 * shown last. It cancels a question that takes long or is about another advertiser.
 */
const coterieForecastSource = (() => {
  const SPACING = 40;
  const LONG = 400;

  /** settings: post (of service_calls.js). */
  function forecastSource({ post }) {
    let flying = null;
    let next = null;

    function forecast(question) {
      return new Promise((resolve, reject) => {
        next?.resolve(null);
        next = { question, resolve, reject };
        if (!flying) launch();
        else if (flying.one !== question.one || performance.now() - flying.since > LONG) {
          flying.controller.abort();
        }
      });
    }

    async function launch() {
      const { question, resolve, reject } = next;
      const controller = new AbortController();
      next = null;
      flying = { one: question.one, controller, since: performance.now() };
      try {
        const said = await post("v1/forecast", bodyOf(question), controller.signal);
        resolve(replyOf(said, question.day));
      } catch (fault) {
        if (controller.signal.aborted) resolve(null);
        else reject(fault);
      }
      const rest = flying.since + SPACING - performance.now();
      setTimeout(
        () => {
          flying = null;
          if (next) launch();
        },
        Math.max(0, rest),
      );
    }

    return Object.freeze({ forecast, read: nearest, zeroBids: false });
  }

  function bodyOf({ one, bids, day }) {
    const body = one.newcomer ? { text: one.text } : { advertiser: one.id };
    body.bid = bids;
    if (day.kind === "date") body.day = day.date;
    if (day.kind === "other") body.supply = day.supply;
    return body;
  }

  function replyOf(said, day) {
    return { ...said, forecasts: said.forecasts.map((one) => forecastOf(one, said, day)) };
  }

  function forecastOf(one, { supply, why }, day) {
    const impressions = figure(one.impressions, one.impressions_interval);
    // an expected number of auctions varies too, and then the interval is not that of a share
    const share = (number) => (day.kind === "other" && supply > 0 ? number / supply : undefined);
    return {
      bid: one.bid,
      supply,
      win: { value: one.win_rate, low: share(impressions.low), high: share(impressions.high) },
      cost: one.cost,
      impressions,
      spend: figure(one.spend, one.spend_interval),
      clicks: figure(one.clicks, one.clicks_interval),
      conversions: figure(one.conversions, one.conversions_interval),
      why: one.remark ? `${why}; ${unjoined(one.remark)}` : why,
      remark: sentence(one.remark ?? ""),
    };
  }

  function figure(value, interval) {
    if (value === null) return null;
    return interval ? { value, low: interval[0], high: interval[1] } : { value };
  }

  /** The reason that applies to one bid only, as a sentence. */
  function sentence(added) {
    const words = unjoined(added);
    return words && `${words[0].toUpperCase()}${words.slice(1)}.`;
  }

  function unjoined(remark) {
    return remark.replace(/^[;\s]+/, "");
  }

  /** The forecast nearest to a bid, without interpolation. */
  function nearest({ forecasts }, bid) {
    const off = (one) => Math.abs(Math.log(one.bid / bid));
    return forecasts.reduce((best, one) => (off(one) < off(best) ? one : best));
  }

  return forecastSource;
})();
