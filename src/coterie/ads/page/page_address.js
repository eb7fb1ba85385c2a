"use strict";
/*
 * What is asked, in the address of the page, so that a link or the back button restores it.
 *
 * It stands after the #, which browsers keep to themselves: neither the service nor a proxy before
 * it ever sees it. A state is { advertiser or text, bid, day }, day as in what_if.js; all optional.
 */
const coterieAddress = (() => {
  const REST = 600;

  function read(hash) {
    const given = new URLSearchParams(hash.slice(1));
    const state = {};
    if (given.has("text")) state.text = given.get("text");
    else if (given.get("advertiser")) state.advertiser = given.get("advertiser");
    const bid = Number(given.get("bid"));
    if (bid > 0 && Number.isFinite(bid)) state.bid = bid;
    const day = dayOf(given);
    if (day) state.day = day;
    return state;
  }

  function dayOf(given) {
    const [supply, date] = [given.get("supply"), given.get("day")];
    const auctions = supply === null || supply.trim() === "" ? NaN : Number(supply);
    if (auctions >= 0 && Number.isFinite(auctions)) return { kind: "other", supply: auctions };
    if (date && isDate(date)) return { kind: "date", date };
    return null;
  }

  function isDate(text) {
    if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
    const then = new Date(text);
    return !Number.isNaN(then.valueOf()) && then.toISOString().startsWith(text);
  }

  function write({ advertiser, text, bid, day }) {
    const given = new URLSearchParams();
    if (text !== undefined) given.set("text", text);
    else if (advertiser !== undefined) given.set("advertiser", advertiser);
    if (bid !== undefined) given.set("bid", bid);
    if (day?.kind === "other") given.set("supply", day.supply);
    if (day?.kind === "date") given.set("day", day.date);
    return `#${given}`;
  }

  /** The steps of the back button; current() is the state shown. */
  function steps(current) {
    let timer = 0;
    let handled = null;

    /** Make the state a step that one can come back to. */
    function commit() {
      clearTimeout(timer);
      const hash = write(current());
      if (hash === handled) return;
      handled = hash;
      history.pushState(null, "", hash);
    }

    /** The same, once it has been left alone for a while. */
    function soon() {
      clearTimeout(timer);
      timer = setTimeout(commit, REST);
    }

    /** What the address asks after a link or the back button; null where it is nothing new. */
    function taken() {
      if (location.hash === handled) return null;
      clearTimeout(timer);
      handled = location.hash;
      return read(handled);
    }

    /** The state is what the address asks, though it may ask in other words. */
    function settle() {
      clearTimeout(timer);
      if (location.hash.length > 1) history.replaceState(null, "", write(current()));
      handled = location.hash;
    }

    return Object.freeze({ commit, settle, soon, taken });
  }

  return Object.freeze({ read, steps, write });
})();
