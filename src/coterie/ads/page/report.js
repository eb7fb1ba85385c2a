"use strict";
/* The wiring of the report: its numbers, its panel and its charts. */
(() => {
  const charts = coterieCharts;
  const { count, forecastAt, interpolate, percent, tick } = coterieNumbers;
  const { element, idText } = coterieNodes;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { grid, segments, symbol, interval } = data;
  const find = (id) => document.getElementById(id);
  const money = (number) => coterieNumbers.money(number, symbol);
  const moneyTick = (number) => symbol + tick(number);
  const percentTick = (share) => `${Math.round(100 * share)}%`;

  // -------------------------------------------------------------------- data

  /** Win rates, kept in percent, as shares of 1. */
  function shares(place) {
    return place === null ? null : data.curves[place].map((value) => value / 100);
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
    return { ...one, curves: curvesOf(one), own: shares(one.own), facts: factsOf(one) };
  }

  function factsOf(one) {
    const from = {
      pooled: "its own curve and its segment’s, mixed by volume",
      segment: "its segment’s curve",
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

  /** Small charts of all segments, read together at one bid. */
  function segmentCharts() {
    const all = segments.map((segment) => ({ ...segment, curves: curvesOf(segment) }));
    const usual = grid[grid.length >> 1];
    const kinds = [
      { name: "win", means: "share of auctions won", height: 128, ticks: 2, format: percentTick },
      { name: "cost", means: "price paid per thousand", height: 96, ticks: 3, format: moneyTick },
    ];
    const panels = [];

    function point(bid) {
      for (const { place, name, chart } of panels) {
        const { win, cost } = forecastAt(all[place].curves, bid, 1);
        const text = name === "win" ? percent(win.value) : money(cost);
        chart.point(bid, `at ${money(bid)}: ${text}`);
        find(`segment-${place}-${name}-said`).textContent = text;
      }
      find("segment-bid").textContent = money(bid);
    }

    for (const { name, means, height, ticks, format } of kinds) {
      const top = Math.max(...all.flatMap(({ curves }) => curves[name]));
      all.forEach((segment, place) => {
        const chart = charts.curveChart(find(`segment-${place}-${name}`), {
          grid,
          label: `${segment.name}: ${means} by bid`,
          height,
          ticks,
          leastTickLength: 5,
          formatBid: moneyTick,
          formatTick: format,
          onHover: (bid) => point(bid ?? usual),
        });
        const others = all.filter((other) => other !== segment);
        const lines = others.map(({ curves }) => ({ kind: "context", values: curves[name] }));
        lines.push({ kind: "main", values: segment.curves[name] });
        const { median_price: median } = segment;
        chart.show({
          lines,
          top: name === "win" ? 1 : top,
          band: name === "win" ? segment.curves : null,
          marks: name === "win" ? [{ bid: median, label: `median ${money(median)}` }] : [],
        });
        panels.push({ place, name, chart });
      });
    }
    point(usual);
  }

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
  const order = bySpend();
  const choose = coterieWhatIf({
    grid,
    symbol,
    interval,
    order,
    ids: data.advertisers.id,
    about: aboutAdvertiser,
    load: loadAdvertiser,
  });
  choose(order[0]);
  segmentCharts();
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
