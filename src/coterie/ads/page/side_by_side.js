"use strict";
/*
 * A second advertiser beside the one of the panel: its curves in the same charts, and the figures of
 * both in two columns with their difference.
 *
 * panel({ answers, money, grid, onChange }) wires side_by_side.html; answers are those of
 * what_if.js, for this advertiser alone, and onChange is called when it has other figures.
 *   choose(one)         the second advertiser, as in what_if.js, or null
 *   follow({ day, bid }) asks for it what is asked of the first: the same period and bid
 *   line(target)        its curve for a chart, or null
 *   fill(one, now)      the table, beside a forecast of the first
 */
const coterieSideBySide = (() => {
  const { count, marginalCost, percent, signed, span } = coterieNumbers;
  const { element, exact, find, idText, visible, whole } = coterieNodes;
  const LONGEST = 11; // characters of an id at the end of a line

  function panel({ answers, money, grid, onChange }) {
    const rows = [
      ["Auctions", (at) => ({ value: at.supply }), count],
      ["Auctions won", ({ win }) => ({ value: win.value }), percent],
      ["Impressions", ({ impressions }) => impressions, count],
      ["Spend", ({ spend }) => spend, money],
      ["Paid per thousand", ({ cost }) => ({ value: cost }), money],
      ["Next thousand", ({ marginal }) => marginal !== null && { value: marginal }, money],
      ["Clicks", ({ clicks }) => clicks, count],
      ["Conversions", ({ conversions }) => conversions, count],
    ];
    let other = null;
    let shown = null; // { day, reply, curve }
    let turn = 0;

    function choose(one) {
      other = one;
      shown = null;
      turn += 1;
      find("beside-said").textContent = "";
      find("beside-clear").hidden = one === null;
      find("side-by-side").hidden = true;
      onChange();
    }

    async function follow({ day, bid }) {
      if (other === null) return;
      const ownTurn = (turn += 1);
      try {
        const reply = await (shown?.day === day ? refined(bid) : answers.forecast({ one: other, day, bids: grid }));
        if (!reply || ownTurn !== turn) return;
        shown = { day, reply, curve: reply.forecasts };
        find("beside-said").textContent = "";
        onChange();
        if (at(bid)?.isRough) follow({ day, bid });
      } catch (fault) {
        if (ownTurn === turn) find("beside-said").textContent = fault.message;
      }
    }

    /** The reply with exact figures at a bid; null if it has them. */
    function refined(bid) {
      return at(bid)?.isRough === false ? null : answers.refine?.(shown.reply, [bid]);
    }

    function at(bid) {
      return shown && answers.at(shown.reply, bid);
    }

    function line(target) {
      if (!shown) return null;
      const inside = shown.curve.filter(({ bid }) => bid >= grid[0] && bid <= grid[grid.length - 1]);
      const name = visible(other.id);
      return {
        kind: "second",
        label: name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name,
        bids: inside.map(({ bid }) => bid),
        values: inside.map((one) => one[target].value),
      };
    }

    function fill(one, now) {
      const there = at(now.bid);
      find("side-by-side").hidden = !there;
      if (!there) return;
      const second = { ...there, marginal: marginalCost(shown.curve, now.bid) };
      const names = [one.id === null ? "a new advertiser" : idText(one.id), idText(other.id)];
      const heads = [...names, "difference"].map((name) => element("th", { scope: "col" }, name));
      find("beside-head").replaceChildren(element("th", { scope: "col" }, `At ${money(now.bid)}`), ...heads);
      find("beside-table").replaceChildren(...rows.flatMap((row) => tableRow(row, now, second)));
    }

    function tableRow([title, figureOf, format], now, second) {
      const figures = [figureOf(now), figureOf(second)];
      if (!figures[0] && !figures[1]) return [];
      const cells = figures.map((figure) => element("td", {}, ...(figure ? written(figure, format) : ["–"])));
      return [element("tr", {}, element("th", { scope: "row" }, title), ...cells, difference(figures, format))];
    }

    function written(figure, format) {
      const interval = figure.low === undefined ? [] : [element("small", {}, whole(span(figure, format)))];
      return [exact(figure.value, format(figure.value)), ...interval];
    }

    /** The second less the first, also as a share of the first. */
    function difference([first, second], format) {
      if (!first || !second) return element("td", {}, "–");
      const gap = second.value - first.value;
      const isShare = format === percent;
      const size = isShare ? `${(100 * Math.abs(gap)).toFixed(1)} points` : format(Math.abs(gap));
      const text = `${gap < 0 ? "−" : "+"}${size}`;
      const share = isShare || first.value <= 0 ? [] : [element("small", {}, signed(gap / first.value))];
      return element("td", {}, exact(gap, text), ...share);
    }

    return Object.freeze({ choose, fill, follow, line });
  }

  /** The field that chooses the second advertiser; onChoose gets what was found, or null for none. */
  function field(searching, onChoose) {
    const box = coterieCombobox.combobox(find("beside"), find("beside-found"), { ...searching, onChoose });
    find("beside-clear").addEventListener("click", () => {
      box.show("");
      onChoose(null);
      find("beside").focus();
    });
    return box;
  }

  return Object.freeze({ field, panel });
})();
