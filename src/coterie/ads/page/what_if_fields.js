"use strict";
/*
 * The fields of what_if.html: the bid, the period, the number of auctions, and what is wrong there.
 *
 * coterieFields(settings) wires them. settings: grid (bids), money (writes an amount), currency,
 * zeroBids (whether a bid of 0 can be asked), hasFigures() and onChange(), called when something
 * else is asked. They have asked(), which is { bid, day }, choose(one, asked), setBid(bid),
 * showSupply(number), what the answer expects, and showFault(name, fault).
 *
 * A day is a period: { kind: "mean" }, { kind: "weekday", weekday, name }, { kind: "date", date } or
 * { kind: "days", days }. It has a supply if the number of auctions is given, not expected.
 */
const coterieFields = (() => {
  const { bidScale, nextBid, roundedBid } = coterieScales;
  const { entered, enteredMoney, period } = coterieNumbers;
  const { find } = coterieNodes;
  const NEWCOMERS_SUPPLY = 10_000; // a day
  const DAY = 86_400_000;
  const longDate = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeZone: "UTC" });

  function daysIn({ kind, days }) {
    return kind === "days" ? days : 1;
  }

  /** A period as in titles. */
  function perOf({ kind, days }) {
    return { days: `in ${days} days`, date: "on the day" }[kind] ?? "a day";
  }

  /** A period in words: { per }, for titles, and { when }, for sentences. */
  function periodWords(day, lastDay) {
    const per = perOf(day);
    if (day.supply !== undefined) return { per, when: per };
    const last = Date.parse(lastDay);
    const when = {
      mean: () => "on an average day",
      weekday: () => `on a ${day.name}`,
      date: () => `on ${longDate.format(new Date(day.date))}`,
      days: () => `in the next ${day.days} days (${period(last + DAY, last + day.days * DAY)})`,
    };
    return { per, when: when[day.kind]() };
  }

  /** Auctions as the field shows them: to the last one, or to four digits where they are few. */
  function shortSupply(supply) {
    return supply >= 1000 ? Math.round(supply) : Number(supply.toPrecision(4));
  }

  function fields({ grid, money, currency = "", zeroBids, hasFigures, onChange }) {
    const ends = [grid[0], grid[grid.length - 1]];
    const steps = bidScale(grid, 0, 1000);
    const ids = { slider: "bid-slider", day: "day", date: "date", bid: "bid", supply: "supply" };
    const inputs = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, find(id)]));
    const faults = {};
    let one = null;
    let bid = 0;
    let day = { kind: "mean" };
    let expected = null; // auctions of the last answer

    // ---- faults

    function showFault(name, fault) {
      faults[name] = fault;
      const text = Object.values(faults).filter(Boolean).join(" ");
      if (find("fault").textContent !== text) find("fault").textContent = text;
      const field = inputs[name];
      if (!field) return;
      field.setAttribute("aria-invalid", String(fault !== ""));
      if (fault) field.setAttribute("aria-errormessage", "fault");
      else field.removeAttribute("aria-errormessage");
    }

    function refuse(name, fault) {
      showFault(name, hasFigures() ? `${fault}; the figures are for the last good one.` : `${fault}.`);
    }

    /** The number that was typed, or null after saying what is wrong with it. */
    function checked(name, meaning, { value, fault }, zero) {
      if (zero ? value >= 0 : value > 0) return value;
      const rule = `must be ${zero ? "a number, 0 or more" : "a number above 0"}`;
      refuse(name, `${meaning} ${fault ? `is not clear: ${fault}` : rule}`);
      return null;
    }

    // ---- bid

    /** In the field the bid has four digits, unless it was given to more. */
    function setBid(value, given = Number(value.toPrecision(4))) {
      inputs.bid.value = given;
      takeBid(value);
      onChange();
    }

    function takeBid(value, note = "") {
      bid = value;
      showFault("bid", "");
      find("note").textContent = note;
      inputs.slider.value = steps(Math.min(ends[1], Math.max(ends[0], value)));
      inputs.slider.setAttribute("aria-valuetext", money(value));
    }

    function typeBid() {
      const amount = enteredMoney(inputs.bid.value);
      const value = checked("bid", "The bid", amount, zeroBids);
      if (value === null) return;
      const isOther = currency && amount.currency && amount.currency !== currency;
      takeBid(value, isOther ? `The log’s amounts are in ${currency}: the bid is taken as ${money(value)}.` : "");
      onChange();
    }

    inputs.slider.addEventListener("input", () => {
      setBid(roundedBid(steps.invert(Number(inputs.slider.value)), grid));
    });
    inputs.bid.addEventListener("input", typeBid);
    inputs.bid.addEventListener("keydown", (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!direction || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const next = nextBid(bid, grid, direction);
      setBid(next, next);
    });
    for (const button of document.querySelectorAll("[data-change]")) {
      button.addEventListener("click", () => {
        const next = Number((bid * (1 + button.dataset.change / 100)).toPrecision(4));
        if (next > 0) setBid(next, next);
      });
    }
    find("usual-bid").addEventListener("click", () => setBid(one.bid));

    // ---- period and auctions

    /** Show a period in the fields; a newcomer's auctions are not known, and so always given. */
    function setDay(next = { kind: "mean" }) {
      day = next;
      if (one.newcomer && day.kind === "date") day = { kind: "mean", supply: day.supply };
      if (one.newcomer) day.supply ??= NEWCOMERS_SUPPLY * daysIn(day);
      showFault("supply", "");
      showFault("date", "");
      const value = { days: `days-${day.days}`, weekday: `weekday-${day.weekday}` }[day.kind] ?? day.kind;
      if (!inputs.day.querySelector(`[value="${value}"]`)) {
        inputs.day.append(new Option(`Next ${day.days} days`, value));
      }
      inputs.day.value = value;
      if (inputs.date) inputs.date.hidden = day.kind !== "date";
      if (day.kind === "date") inputs.date.value = day.date;
      if (day.supply !== undefined) inputs.supply.value = shortSupply(day.supply);
      showHint();
      for (const place of document.querySelectorAll("[data-per]")) place.textContent = perOf(day);
    }

    function showHint() {
      const given = one.newcomer ? "your number" : "your number; empty the field for the expected one";
      find("supply-hint").textContent = day.supply === undefined ? "expected" : given;
    }

    function takePeriod() {
      const [kind, number] = inputs.day.value.split("-");
      const before = day;
      if (kind === "date") {
        inputs.date.hidden = false;
        inputs.date.focus();
        return takeDate();
      }
      const name = inputs.day.selectedOptions[0].textContent;
      const others = { days: { days: Number(number) }, weekday: { weekday: Number(number), name } };
      const next = { kind, ...others[kind] };
      if (one.newcomer) next.supply = (before.supply * daysIn(next)) / daysIn(before);
      setDay(next);
      return onChange();
    }

    function takeDate() {
      if (inputs.date.value === "") return refuse("date", "The date is not a whole one");
      setDay({ kind: "date", date: inputs.date.value });
      return onChange();
    }

    function takeSupply() {
      // a user who empties the field may go on to type
      if (inputs.supply.value.trim() === "" && !one.newcomer) return showFault("supply", "");
      const supply = checked("supply", "The number of auctions", entered(inputs.supply.value), true);
      if (supply === null) return undefined;
      const typed = inputs.supply.value;
      // the service takes a number of auctions or a date
      setDay(day.kind === "date" ? { kind: "mean", supply } : { ...day, supply });
      inputs.supply.value = typed;
      return onChange();
    }

    /** What is being typed, or was typed wrongly, is not changed. */
    function fillSupply() {
      if (day.supply !== undefined || faults.supply || expected === null) return;
      if (document.activeElement !== inputs.supply) inputs.supply.value = shortSupply(expected);
    }

    inputs.day.addEventListener("change", takePeriod);
    inputs.date?.addEventListener("input", takeDate);
    inputs.supply.addEventListener("input", takeSupply);
    inputs.supply.addEventListener("blur", fillSupply);
    inputs.supply.addEventListener("change", () => {
      if (inputs.supply.value.trim() !== "" || one.newcomer) return;
      const { supply, ...period } = day;
      setDay(period);
      onChange();
    });

    return Object.freeze({
      asked: () => ({ bid, day }),
      showFault,
      setBid,
      choose(next, given) {
        one = next;
        setDay(given.day);
        find("usual-bid").hidden = one.bid === null;
        const date = inputs.day.querySelector("[value=date]");
        if (date) date.hidden = date.disabled = one.newcomer === true;
        setBid(given.bid ?? one.bid ?? roundedBid(grid[grid.length >> 1], grid), given.bid);
      },
      showSupply(number) {
        expected = number;
        fillSupply();
      },
    });
  }

  return Object.freeze({ fields, periodWords });
})();
