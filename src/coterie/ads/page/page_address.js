"use strict";
/*
 * The current question in the address of the page, so that a link or the back button restores it.
 *
 * It is after the #, which browsers do not send: neither the service nor a proxy before
 * it ever sees it. A state is { advertiser or text, beside, bid, kept, day }, as in what_if.js;
 * beside is the id of a second advertiser. All are optional.
 */
const coterieAddress = (() => {
  const REST = 400;

  function read(hash) {
    const given = new URLSearchParams(hash.slice(1));
    const state = {};
    if (given.has("text")) state.text = given.get("text");
    else if (given.get("advertiser")) state.advertiser = given.get("advertiser");
    if (given.get("beside")) state.beside = given.get("beside");
    const bid = numberIn(given, "bid");
    if (bid > 0) state.bid = bid;
    const kept = (given.get("keep") ?? "").split(",").map(Number);
    if (given.has("keep") && kept.every((one) => one > 0 && one < Infinity)) state.kept = kept;
    const day = dayOf(given);
    if (day) state.day = day;
    return state;
  }

  /** A period; a number of auctions goes with days, but not with a date. */
  function dayOf(given) {
    const [supply, days, date] = [numberIn(given, "supply"), numberIn(given, "days"), given.get("day")];
    const day = { kind: "mean" };
    const most = Number(document.getElementById("budget-days").dataset.most);
    if (Number.isInteger(days) && days > 1 && days <= most) Object.assign(day, { kind: "days", days });
    if (supply >= 0) return { ...day, supply };
    if (day.kind === "days") return day;
    return date && isDate(date) ? { kind: "date", date } : null;
  }

  function numberIn(given, name) {
    return coterieNumbers.entered(given.get(name) ?? "").value;
  }

  /** The parts of an address that read() did not understand. */
  function unused(hash) {
    const given = new URLSearchParams(hash.slice(1));
    const { bid, kept, day } = read(hash);
    const used = { bid, keep: kept, supply: day?.supply, day: day?.date, days: day?.days };
    const left = Object.keys(used).filter((name) => given.has(name) && used[name] === undefined);
    return left.map((name) => `${name}=${given.get(name)}`);
  }

  function isDate(text) {
    if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
    const then = new Date(text);
    return !Number.isNaN(then.valueOf()) && then.toISOString().startsWith(text);
  }

  function write({ advertiser, text, beside, bid, kept, day }) {
    const given = new URLSearchParams();
    if (text !== undefined) given.set("text", text);
    else if (advertiser !== undefined) given.set("advertiser", advertiser);
    if (beside !== undefined) given.set("beside", beside);
    if (bid !== undefined) given.set("bid", bid);
    if (kept?.length) given.set("keep", kept.join(","));
    if (day?.kind === "days") given.set("days", day.days);
    if (day?.kind === "date") given.set("day", day.date);
    if (day?.supply !== undefined) given.set("supply", day.supply);
    return `#${given}`;
  }

  /**
   * The steps of the back button; current() is the state shown.
   *
   * What changes while a person types or drags is one step, written anew each time it rests, until
   * ended() says that the field or the pointer was let go.
   */
  function steps(current) {
    let timer = 0;
    let handled = null;
    let open = false;
    let letGo = false;

    function note() {
      stop();
      const hash = write(current());
      if (hash === handled) {
        open &&= !letGo;
        return;
      }
      handled = hash;
      if (open) history.replaceState(null, "", hash);
      else history.pushState(null, "", hash);
      open = !letGo;
    }

    function stop() {
      clearTimeout(timer);
      timer = 0;
    }

    /** Add the state to the history now. */
    function commit() {
      note();
      open = false;
    }

    /** Add the state to the history once it has not changed for a while. */
    function soon() {
      stop();
      letGo = false;
      timer = setTimeout(note, REST);
    }

    /** Make the next change a separate step of the history. */
    function ended() {
      letGo = true;
      if (!timer) open = false;
    }

    /** Before another advertiser is shown, add a waiting state to the history. */
    function leave() {
      if (timer) note();
      open = false;
    }

    /** The state of the address after a link or the back button; null if it has not changed. */
    function taken() {
      if (location.hash === handled) return null;
      stop();
      open = false;
      handled = location.hash;
      return read(handled);
    }

    /** Accept the state of the address, even if it is written differently. */
    function settle() {
      stop();
      open = false;
      if (location.hash.length > 1) history.replaceState(null, "", write(current()));
      handled = location.hash;
    }

    return Object.freeze({ commit, ended, leave, settle, soon, taken });
  }

  return Object.freeze({ read, steps, unused, write });
})();
