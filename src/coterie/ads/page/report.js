"use strict";
/* The script of the report: connects data, panel and charts. */
(() => {
  const charts = coterieCharts;
  const { count, forecastAt, interpolate, percent } = coterieNumbers;
  const { element, idText } = coterieNodes;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { grid, segments, symbol, interval } = data;
  const find = (id) => document.getElementById(id);
  const money = (number) => coterieNumbers.money(number, symbol);
  const percentTick = (share) => `${Math.round(100 * share)}%`;

  // -------------------------------------------------------------------- data

  /** A stored curve in units of 1. */
  function curve(place, unit) {
    return place === null ? null : data.curves[place].map((value) => value / unit);
  }

  /** Win rates, stored in percent, as shares of 1. */
  function shares(place) {
    return curve(place, 100);
  }

  function curvesOf(one) {
    return {
      grid,
      win: shares(one.win),
      low: shares(one.win_low),
      high: shares(one.win_high),
      cost: data.curves[one.cost],
    };
  }

  function loadAdvertiser(index) {
    const columns = Object.entries(data.advertisers);
    const one = Object.fromEntries(columns.map(([name, values]) => [name, values[index]]));
    const spend = { spendLow: curve(one.spend_low, 1000), spendHigh: curve(one.spend_high, 1000) };
    const curves = { ...curvesOf(one), ...spend };
    const own = { kind: "own", label: "own", grid, win: shares(one.own), cost: curves.cost };
    return { ...one, curves, lines: one.own === null ? [] : [own] };
  }

  // ----------------------------------------------------------------- answers

  /** The forecast at a bid, from the curves in the page. */
  function forecastOf(one, bid, supply) {
    const at = forecastAt(one.curves, bid, supply);
    const rate = one.click_rate;
    const clicks = rate === null ? null : { value: at.impressions.value * rate };
    const seen = `${money(grid[0])} to ${money(grid[grid.length - 1])}`;
    const outside = `This is outside the bids seen (${seen}): the forecast stays as at the nearest of them.`;
    return { ...at, clicks, conversions: null, remark: at.outside ? outside : "" };
  }

  function supplyOn(one, day) {
    if (day.kind === "weekday") return one.supply_by_weekday[day.weekday];
    return day.kind === "other" ? day.supply : one.supply;
  }

  const answers = {
    zeroBids: true,
    forecast({ one, bids, day }) {
      const supply = supplyOn(one, day);
      const forecasts = bids.map((bid) => forecastOf(one, bid, supply));
      return { one, supply, curve: one.source, forecasts };
    },
    read: ({ one, supply }, bid) => forecastOf(one, bid, supply),
  };

  // -------------------------------------------------------------- advertisers

  function factsOf(one) {
    const from = {
      pooled: "its own auctions, completed by the curves of its segment",
      segment: "the curves of its segment",
      global: "the curve of all advertisers",
    };
    const facts = [];
    if (one.segment !== null) {
      const name = element("bdi", {}, segments[one.segment].name);
      facts.push(["Segment", element("a", { href: `#segment-${one.segment}` }, name)]);
      facts.push(["Confidence", percent(one.confidence)]);
    }
    facts.push(["Forecast from", from[one.source]], ["Bids seen", count(one.observations)]);
    if (one.outlier) facts.push(["Outlier", "its market is like no segment’s"]);
    if (one.dissent.length) facts.push(["Placed elsewhere by", one.dissent.join(", ")]);
    return facts;
  }

  function aboutAdvertiser(index) {
    const place = data.advertisers.segment[index];
    const bids = `${count(data.advertisers.observations[index])} bids`;
    return place === null ? bids : `${segments[place].name} · ${bids}`;
  }

  /** Advertisers by what they spend a day at today's bid, the largest first. */
  function bySpend() {
    const { bid, supply, win, cost } = data.advertisers;
    const spend = bid.map((now, i) => {
      const at = (place) => interpolate(grid, data.curves[place], now);
      return supply[i] * at(win[i]) * at(cost[i]);
    });
    return spend.map((_, i) => i).sort((a, b) => spend[b] - spend[a]);
  }

  // ---------------------------------------------------------------- segments

  /** Under the most typical members of a segment, a button that lists all of them. */
  function memberLists() {
    const { segment, confidence, id } = data.advertisers;
    for (const list of document.querySelectorAll("[data-members-of]")) {
      const place = Number(list.dataset.membersOf);
      const members = segment.flatMap((at, i) => (at === place ? [i] : []));
      if (members.length <= list.children.length) continue;
      const text = `List all ${members.length.toLocaleString("en")}`;
      const button = element("button", { type: "button", class: "more" }, text);
      button.addEventListener("click", () => {
        members.sort((a, b) => confidence[b] - confidence[a]);
        list.replaceChildren(
          ...members.map((i) => {
            const link = element("a", { href: "#what-if", "data-advertiser": i }, idText(id[i]));
            return element("li", {}, link, element("small", {}, percent(confidence[i])));
          }),
        );
        button.remove();
      });
      list.after(button);
    }
  }

  // ------------------------------------------------------------------ errors

  function errorCharts() {
    for (const target of data.errors?.length ? ["impressions", "spend"] : []) {
      charts.dotPlot(find(`${target}-errors`), {
        label: `Error of the ${target} forecast by source of the curve`,
        format: percentTick,
        rows: data.errors.map(({ label, chosen, ...values }) => ({
          label,
          values: values[target],
          best: chosen,
        })),
      });
    }
  }

  // ------------------------------------------------------------------- start

  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  const { id: ids } = data.advertisers;
  const order = bySpend();
  const items = order.map((index) => ({ index, name: ids[index], key: ids[index].toLowerCase() }));
  const panel = coterieWhatIf({ grid, symbol, interval, answers });
  const box = coterieCombobox.combobox(find("advertiser"), find("advertisers-found"), {
    find: (query) => coterieCombobox.search(items, query, 40),
    nothing: "No advertiser has that in its id",
    describe: ({ index, name }) => [idText(name), element("small", {}, aboutAdvertiser(index))],
    onChoose: ({ index }) => choose(index),
  });
  find("advertiser-count").textContent = ids.length.toLocaleString("en");

  function choose(index) {
    const one = loadAdvertiser(index);
    box.show(one.id);
    find("facts").replaceChildren(
      ...factsOf(one).map(([name, value]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value)),
      ),
    );
    panel.show(one);
  }

  choose(order[0]);
  coterieSegmentCharts({
    grid,
    symbol,
    segments: segments.map((segment) => ({ ...segment, curves: curvesOf(segment) })),
  });
  memberLists();
  errorCharts();

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-advertiser]");
    if (link) choose(Number(link.dataset.advertiser));
  });
  window.addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
