"use strict";
/*
 * The panel of what_if.html: choose a bid and a day, read impressions and spend.
 *
 * coterieWhatIf(settings) wires it. settings: grid (bids), symbol (of the currency), interval (its
 * level, or null), usual (optional: { name, short } of the bid to compare with), onAsk (optional:
 * called whenever something else is asked), onShow (optional: called with each reply before it is
 * shown, and with null where there is none to show) and answers, which knows the forecasts:
 *   forecast({ one, bid, bids, day })  a reply { supply, curve, forecasts: one a bid }, or a
 *                     promise of it; of null where a later question took its place. A forecast is
 *                     that of forecast_words.js; a fault's message is shown as it is
 *   read(reply, bid)  the forecast to read where a chart is pointed at
 *   zeroBids          whether a bid of 0 has an answer
 * The panel has show(one, asked), shown(), remark(words), which stay until something else is asked,
 * and clear(fault), which empties it until the next show. one is { id (or null),
 * bid (the usual one, or null), lines: [{ kind, label, grid, win, cost, curve }, …], newcomer,
 * text }; a newcomer's auctions are not known, and so always given, and nothing is asked while its
 * text is empty. asked is { bid, day }, both optional; a day is
 * { kind: "mean" }, { kind: "weekday", weekday, name }, { kind: "date", date } or
 * { kind: "other", supply }. A line is left out where its curve is the forecast's.
 */
const coterieWhatIf = (() => {
  const charts = coterieCharts;
  const { tick } = coterieNumbers;
  const find = (id) => document.getElementById(id);
  const lineName = { pooled: "pooled", segment: "segment", global: "all", text: "by text" };
  const TODAY = { name: "today’s mean bid", short: "today" };
  const longDate = new Intl.DateTimeFormat("en-GB", {
    weekday: "long",
    day: "numeric",
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });

  function whenOf(day) {
    if (day.kind === "mean") return "on an average day";
    if (day.kind === "weekday") return `on a ${day.name}`;
    return day.kind === "date" ? `on ${longDate.format(new Date(day.date))}` : "a day";
  }

  /** Auctions as the field shows them: to the last one, or to four digits where they are few. */
  function shortSupply(supply) {
    return supply >= 1000 ? Math.round(supply) : Number(supply.toPrecision(4));
  }

  /** Increasing, each once. */
  function sorted(bids) {
    return [...new Set(bids)].sort((a, b) => a - b);
  }

  function whatIf({ grid, symbol, interval, answers, usual = TODAY, onAsk, onShow }) {
    const ends = [grid[0], grid[grid.length - 1]];
    const money = (number) => coterieNumbers.money(number, symbol);
    const words = coterieForecastWords(money, interval, usual);
    const steps = charts.bidScale(grid, 0, 1000);
    const ids = { slider: "bid-slider", day: "day", date: "date", bid: "bid", supply: "supply" };
    const fields = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, find(id)]));
    const faults = {};
    let one = null;
    let bid = 0;
    let day = { kind: "mean" };
    let turn = 0;
    let shown = { turn: 0 };

    const panels = ["impressions", "spend"].map((target) => ({
      target,
      said: find(`${target}-said`),
      chart: charts.curveChart(find(`${target}-chart`), {
        grid,
        label: `${target === "spend" ? "Spend" : "Impressions"} a day by bid`,
        height: 264,
        ticks: 5,
        bidTitle: `bid, ${symbol.trim() || "currency units"} per thousand impressions (CPM)`,
        formatBid: tick,
        formatTick: (value) => (target === "spend" ? symbol : "") + tick(value),
        onHover: (hovered) => point(hovered),
        onPick: (picked) => setBid(charts.roundedBid(picked, grid)),
      }),
    }));

    // ---- answers

    async function ask() {
      say("remark", "");
      onAsk?.({ one, bid, day });
      if (one === null || one.text === "") return;
      const mine = (turn += 1);
      const round = charts.bidTicks(grid, 14).filter((at) => at > 0 || answers.zeroBids);
      const table = sorted([...round, bid, ...(one.bid === null ? [] : [one.bid])]);
      const question = { one, bid, day, table, bids: sorted([...grid, ...table]) };
      let reply = null;
      try {
        reply = await answers.forecast(question);
      } catch (fault) {
        if (mine === turn) fail(fault.message);
      }
      if (reply === null || mine < shown.turn) return;
      shown = { turn: mine, question, reply, when: whenOf(question.day) };
      say("answer", "");
      show();
    }

    /** The figures of the last answer stay, if they are about whom is asked. */
    function fail(words) {
      say("answer", shown.reply ? `${words} The figures are those of the last answer.` : words);
      if (!shown.reply) onShow?.(null);
    }

    /** Forget whom it was about and what was shown, and what may yet be answered of that. */
    function clear(fault = "") {
      turn += 1;
      shown = { turn };
      one = null;
      say("answer", fault);
      if (fault) onShow?.(null);
    }

    function show() {
      const { question, reply } = shown;
      onShow?.(reply);
      const byBid = new Map(reply.forecasts.map((at) => [at.bid, at]));
      const now = byBid.get(question.bid);
      const today = byBid.get(question.one.bid) ?? null;
      words.fillTiles(now, today);
      find("sentence").replaceChildren(...words.sentence(question.one.id, now, today, shown.when));
      const rows = question.table.map((at) => byBid.get(at));
      find("bid-table").replaceChildren(...rows.map((at) => words.row(at, now, today)));
      // what is being typed stays as it is
      if (day.kind !== "other" && !faults.supply) fields.supply.value = shortSupply(reply.supply);
      drawCurves();
      point(null);
    }

    function drawCurves() {
      const { question, reply } = shown;
      const today = question.one.bid;
      const marks = today === null ? [] : [{ bid: today, label: `${usual.short} ${money(today)}` }];
      const inside = reply.forecasts.filter((at) => at.bid >= ends[0] && at.bid <= ends[1]);
      const bids = inside.map((at) => at.bid);
      for (const { target, chart } of panels) {
        const along = (end) => inside.map((at) => at[target][end]);
        const band = { bids, low: along("low"), high: along("high") };
        const beside = question.one.lines.filter(({ curve }) => curve !== reply.curve);
        const lines = beside.map((line) => besideIt(line, target, reply.supply));
        lines.push({ kind: "main", bids, values: along("value"), label: lineName[reply.curve] });
        const top = Math.max(...band.high, ...lines.flatMap((line) => line.values));
        chart.show({ lines, band, marks, top });
      }
    }

    /** A curve that is not the forecast's, as a line of a chart. */
    function besideIt({ kind, label, grid: bids, win, cost }, target, supply) {
      const each = (i) => (target === "spend" ? cost[i] / 1000 : 1);
      return { kind, label, bids, values: win.map((share, i) => supply * share * each(i)) };
    }

    /** Read the charts at a bid, or at the chosen one. */
    function point(hovered) {
      const { question, reply } = shown;
      if (!reply) return;
      const at = answers.read(reply, hovered ?? question.bid);
      for (const { target, chart, said } of panels) {
        const text = words.reading(at, target);
        said.textContent = text;
        chart.point(at.bid, text);
      }
    }

    // ---- questions

    function choose(next, asked) {
      one = next;
      setDay(one.newcomer && asked.day?.kind !== "other" ? { kind: "other", supply: 10_000 } : asked.day);
      fields.day.hidden = one.newcomer === true;
      const usual = one.bid ?? charts.roundedBid(grid[grid.length >> 1], grid);
      setBid(asked.bid ?? usual, asked.bid);
    }

    /** In the field the bid has four digits, unless it was given to more. */
    function setBid(value, given = Number(value.toPrecision(4))) {
      fields.bid.value = given;
      takeBid(value);
      ask();
    }

    function takeBid(value) {
      bid = value;
      say("bid", "");
      fields.slider.value = steps(Math.min(ends[1], Math.max(ends[0], value)));
      fields.slider.setAttribute("aria-valuetext", money(value));
    }

    function setDay(next = { kind: "mean" }) {
      day = next;
      say("supply", "");
      say("date", "");
      fields.day.value = day.kind === "weekday" ? day.weekday : day.kind;
      if (fields.date) fields.date.hidden = day.kind !== "date";
      if (day.kind === "date") fields.date.value = day.date;
      if (day.kind === "other") fields.supply.value = day.supply;
    }

    function say(name, fault) {
      faults[name] = fault;
      fields[name]?.setAttribute("aria-invalid", String(fault !== ""));
      find("fault").textContent = Object.values(faults).filter(Boolean).join(" ");
    }

    /** The number in a field, or null after saying what is wrong with it. */
    function entered(name, meaning, zero) {
      const { value, fault } = coterieEntered.number(fields[name].value);
      if (zero ? value >= 0 : value > 0) return value;
      const rule = `must be ${zero ? "a number, 0 or more" : "a number above 0"}`;
      refuse(name, `${meaning} ${fault ? `is not clear: ${fault}` : rule}`);
      return null;
    }

    function refuse(name, fault) {
      say(name, shown.reply ? `${fault}; the figures are for the last good one.` : `${fault}.`);
    }

    fields.slider.addEventListener("input", () => {
      setBid(charts.roundedBid(steps.invert(Number(fields.slider.value)), grid));
    });
    fields.bid.addEventListener("input", () => {
      const value = entered("bid", "The bid", answers.zeroBids);
      if (value === null) return;
      takeBid(value);
      ask();
    });
    fields.bid.addEventListener("keydown", (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!direction || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const next = charts.nextBid(bid, grid, direction);
      setBid(next, next);
    });
    fields.supply.addEventListener("input", takeSupply);

    function takeSupply() {
      const supply = entered("supply", "The number of auctions", true);
      if (supply === null) return;
      day = { kind: "other", supply };
      say("supply", "");
      say("date", "");
      fields.day.value = "other";
      if (fields.date) fields.date.hidden = true;
      ask();
    }
    fields.day.addEventListener("change", () => {
      const { value, selectedOptions } = fields.day;
      if (fields.date) fields.date.hidden = value !== "date";
      if (value === "other") fields.supply.focus();
      if (value === "date") fields.date.focus();
      if (value === "mean") setDay();
      else if (value === "other") return takeSupply();
      else if (value === "date") return takeDate();
      else setDay({ kind: "weekday", weekday: Number(value), name: selectedOptions[0].textContent });
      return ask();
    });
    fields.date?.addEventListener("input", takeDate);

    function takeDate() {
      if (fields.date.value === "") return refuse("date", "The date is not a whole one");
      setDay({ kind: "date", date: fields.date.value });
      return ask();
    }

    return Object.freeze({
      show: (next, asked = {}) => choose(next, asked),
      remark: (words) => say("remark", words),
      clear,
      shown: () => shown,
    });
  }

  return whatIf;
})();
