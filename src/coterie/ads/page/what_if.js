"use strict";
/*
 * The panel of what_if.html: choose a bid and a period, read impressions and spend, keep scenarios.
 *
 * coterieWhatIf(settings) wires it. settings: grid (bids), symbol and currency, interval (its
 * level, or null), lastDay (of the log), onAsk (optional: called whenever something else is asked),
 * onShow (optional: called with each reply before it is shown, and with null where there is none to
 * show) and answers:
 *   forecast({ one, bids, day })  a reply { supply, curve, forecasts: one a bid, increasing }, or a
 *                       promise of it; of null where a later question took its place. A forecast is
 *                       that of forecast_words.js; a fault's message is shown unchanged
 *   at(reply, bid)      the forecast at a bid without asking, isRough where it is interpolated; null
 *                       where that is not possible
 *   refine(reply, bids) optional: a promise of the reply after the forecasts of bids are exact
 *   zeroBids            whether a bid of 0 has an answer
 *   bidFor, plan        those of decisions.js
 * answersBeside are those for a second advertiser; a source that forgets its last question needs
 * another. The panel has show(one, asked), compareWith(one), shown(), remark(words), which stay until
 * something else is asked, and clear(fault), which empties it until the next show. one is { id (or null),
 * bid (the mean of the log's, or null), lines: [{ kind, label, grid, win, cost, curve }, …], newcomer,
 * text }; nothing is asked while the text of a newcomer is empty. asked is { bid, day, kept }, all
 * optional; day as in what_if_fields.js, kept the bids of scenarios. A line is left out where its
 * curve is the forecast's.
 */
const coterieWhatIf = (() => {
  const { bidTicks, roundedBid } = coterieScales;
  const { marginalCost, tick } = coterieNumbers;
  const { button, find } = coterieNodes;
  const lineName = { pooled: "pooled", segment: "segment", global: "all", text: "by text" };
  const MOST_KEPT = 4;

  /** Increasing, each once. */
  function sorted(bids) {
    return [...new Set(bids)].sort((a, b) => a - b);
  }

  function whatIf({ grid, symbol, currency, interval, lastDay, answers, answersBeside = answers, onAsk, onShow }) {
    const ends = [grid[0], grid[grid.length - 1]];
    const money = (number) => coterieNumbers.money(number, symbol);
    const words = coterieForecastWords(money, interval);
    const round = bidTicks(grid, 14).filter((at) => at > 0 || answers.zeroBids);
    let one = null;
    let kept = [];
    let hovered = null;
    let onTheWay = null; // whose curve, of which period
    let turn = 0;
    let shown = {};
    let drawn = {};

    const fields = coterieFields.fields({
      ...{ grid, money, currency, zeroBids: answers.zeroBids },
      hasFigures: () => Boolean(shown.reply),
      onChange: ask,
    });
    const decisions = coterieDecisions({ answers, money, fields });
    const showAgain = () => shown.reply && show();
    const beside = coterieSideBySide.panel({ answers: answersBeside, money, grid, onChange: showAgain });
    const panels = ["impressions", "spend"].map((target) => ({
      target,
      chart: coterieCharts.curveChart(find(`${target}-chart`), {
        grid,
        label: `${target === "spend" ? "Spend" : "Impressions"} by bid`,
        height: 264,
        ticks: 5,
        bidTitle: `bid (CPM, ${symbol.trim() || "currency units"})`,
        formatBid: tick,
        formatTick: (value) => (target === "spend" ? symbol : "") + tick(value),
        onHover: (at) => point(at === null ? null : roundedBid(at, grid)),
        onPick: (at) => fields.setBid(roundedBid(at, grid)),
      }),
    }));

    // ---- answers

    /** The bids whose figures are shown apart from the curve. */
    function named() {
      return [fields.asked().bid, ...kept, one.bid].filter((at) => at !== null);
    }

    /** Of another advertiser or period ask for the curve; of another bid for its exact figures. */
    function ask() {
      const { bid, day } = fields.asked();
      fields.showFault("remark", "");
      onAsk?.({ one, bid, day, kept });
      decisions.follow({ one, bid, day, ...coterieFields.periodWords(day, lastDay) });
      beside.follow({ bid, day });
      if (one === null || one.text === "") return undefined;
      if (shown.reply && shown.one === one && shown.day === day) {
        show();
        return refine();
      }
      if (onTheWay?.one === one && onTheWay.day === day) return undefined;
      onTheWay = { one, day };
      const bids = sorted([...grid, ...round, ...named()]);
      return take({ one, day }, () => answers.forecast({ one, day, bids }));
    }

    /** One exact request once the bid has come to rest; a moving bid is read from the curve. */
    function refine() {
      const rough = named().filter((at) => answers.at(shown.reply, at)?.isRough !== false);
      if (!rough.length) fields.showFault("answer", "");
      // a request that is still on its way is for a bid that was left
      return answers.refine && take(shown, () => answers.refine(shown.reply, rough));
    }

    async function take(question, request) {
      const ownTurn = (turn += 1);
      try {
        const reply = await request();
        if (!reply || ownTurn !== turn) return;
        const curve = reply.forecasts.filter((at) => grid.includes(at.bid));
        shown = { ...question, reply, curve, ...coterieFields.periodWords(question.day, lastDay) };
        onTheWay = null;
        fields.showFault("answer", "");
        show();
        if (named().some((at) => answers.at(reply, at)?.isRough !== false)) refine();
      } catch (fault) {
        if (ownTurn === turn) fail(fault.message);
      }
    }

    /** Figures that are about whom is asked stay. */
    function fail(fault) {
      onTheWay = null;
      const isRead = shown.reply && shown.day === fields.asked().day && read(fields.asked().bid);
      const source = isRead ? "read from the curve" : "those of the last answer";
      fields.showFault("answer", shown.reply ? `${fault} The figures are ${source}.` : fault);
      if (!shown.reply) onShow?.(null);
    }

    /** Forget whom it was about and what was shown, and what may yet be answered of that. */
    function clear(fault = "") {
      turn += 1;
      shown = {};
      onTheWay = null;
      one = null;
      decisions.follow(null);
      fields.showFault("answer", fault);
      if (fault) onShow?.(null);
    }

    function read(bid) {
      const at = answers.at(shown.reply, bid);
      return at && { ...at, marginal: marginalCost(shown.curve, bid) };
    }

    // ---- figures

    function show() {
      const { bid } = fields.asked();
      const now = read(bid);
      if (!now) return;
      shown.bid = bid;
      shown.kept = kept;
      onShow?.(shown.reply, bid);
      fields.showSupply(shown.reply.supply);
      const mean = one.bid === null ? null : read(one.bid);
      const rows = sorted([...round, bid, ...(mean ? [one.bid] : [])]).map(read);
      find("bid-table").replaceChildren(...rows.filter(Boolean).map((at) => words.row(at, now, mean)));
      compare(now);
      beside.fill(one, now);
      // a bid that moves changes the pointer alone
      const second = beside.line("spend")?.values.join();
      if (drawn.reply !== shown.reply || drawn.kept !== kept || drawn.second !== second) drawCurves();
      drawn = { reply: shown.reply, kept, second };
      point(hovered);
    }

    function drawCurves() {
      const { reply } = shown;
      const inside = reply.forecasts.filter((at) => at.bid >= ends[0] && at.bid <= ends[1]);
      const bids = inside.map((at) => at.bid);
      const marks = one.bid === null ? [] : [{ bid: one.bid, label: `log’s mean ${money(one.bid)}` }];
      for (const { target, chart } of panels) {
        const along = (end) => inside.map((at) => at[target][end]);
        const hasBand = inside.every((at) => at[target].low !== undefined);
        const band = hasBand ? { bids, low: along("low"), high: along("high") } : null;
        const parts = one.lines.filter(({ curve }) => curve !== reply.curve);
        const second = beside.line(target);
        const lines = parts.map((line) => partOf(line, target, reply.supply));
        if (second) lines.push(second);
        lines.push({ kind: "main", bids, values: along("value"), label: lineName[reply.curve] });
        const dots = kept.flatMap((bid, i) => {
          const value = read(bid)?.[target].value;
          return value === undefined ? [] : [{ bid, value, label: i + 1 }];
        });
        const top = Math.max(...(band?.high ?? []), ...lines.flatMap((line) => line.values));
        chart.show({ lines, band, marks, dots, top });
      }
    }

    /** A curve that is not the forecast's, as a line of a chart. */
    function partOf({ kind, label, grid: bids, win, cost }, target, supply) {
      const each = (i) => (target === "spend" ? cost[i] / 1000 : 1);
      return { kind, label, bids, values: win.map((share, i) => supply * share * each(i)) };
    }

    /** Read tiles, sentence and charts at a bid, or at the chosen one. */
    function point(bid) {
      const wasPointing = hovered !== null;
      hovered = bid;
      if (!shown.reply) return;
      const chosen = read(shown.bid);
      const at = (hovered === null ? null : read(hovered)) ?? chosen;
      const mean = one.bid === null ? null : read(one.bid);
      const isPointing = at.bid !== chosen.bid;
      // words of another length must not move the chart under the pointer
      const answer = find("answer");
      if (hovered === null) answer.style.height = "";
      else if (!wasPointing) answer.style.height = `${answer.getBoundingClientRect().height}px`;
      find("sentence").setAttribute("aria-live", isPointing ? "off" : "polite");
      find("caption").replaceChildren(...words.caption(at, mean, isPointing));
      find("sentence").replaceChildren(...words.sentence(one.id, at, mean, shown));
      words.fillTiles(at, mean);
      for (const { target, chart } of panels) {
        chart.point(at.bid, words.reading(at, target), hovered === null ? null : words.tip(at, target, chosen));
      }
    }

    // ---- scenarios

    function compare(now) {
      const known = kept.map(read);
      find("compare").hidden = !kept.length;
      find("keep").disabled = kept.includes(now.bid) || kept.length >= MOST_KEPT;
      find("keep").textContent = kept.length >= MOST_KEPT ? `${MOST_KEPT} bids are kept` : "Keep to compare";
      for (const place of document.querySelectorAll(".of-clicks")) place.hidden = now.clicks === null;
      const rows = kept.flatMap((bid, i) => {
        const acting = (name, press) => button(name, press, { "aria-label": `${name} ${money(bid)}` });
        const use = acting("Use", () => fields.setBid(bid, bid));
        const remove = acting("Remove", () => keep(kept.filter((other) => other !== bid)));
        return known[i] ? [words.scenario(known[i], known[0], String(i + 1), use, remove)] : [];
      });
      if (!kept.includes(now.bid)) rows.push(words.scenario(now, known[0] ?? now, ""));
      find("scenarios").replaceChildren(...rows);
    }

    function keep(bids) {
      kept = bids;
      ask();
    }

    find("keep").addEventListener("click", () => shown.reply && keep([...kept, fields.asked().bid]));

    return Object.freeze({
      show(next, asked = {}) {
        one = next;
        kept = [...new Set(asked.kept ?? [])].slice(0, MOST_KEPT);
        fields.choose(next, asked);
      },
      remark: (fault) => fields.showFault("remark", fault),
      compareWith(other) {
        beside.choose(other);
        beside.follow(fields.asked());
      },
      clear,
      shown: () => shown,
    });
  }

  return whatIf;
})();
