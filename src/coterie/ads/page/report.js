"use strict";
/* The script of the report: connects data, panel and charts. */
(() => {
  const { count, interpolate, percent } = coterieNumbers;
  const { definitions, element, find, idText } = coterieNodes;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { grid, segments, symbol, interval } = data;
  const money = (number) => coterieNumbers.money(number, symbol);

  // -------------------------------------------------------------------- data

  /** A stored curve in units of 1. */
  function curve(place, unit) {
    return place === null ? null : data.curves[place].map((value) => value / unit);
  }

  /** Win rates, stored in percent, as shares of 1. */
  function shares(place) {
    return curve(place, 100);
  }

  /** Shares that rise to 1, stored as steps in thousandths. */
  function rising(place) {
    let sum = 0;
    return data.curves[place].map((step) => (sum += step) / 1000);
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

  /** The c.d.f.s of an advertiser and its segment by bid, and their distances; null if not known. */
  function sharesOf(one) {
    const of = (name, [distance, bid]) => ({
      ...{ own: rising(one[`${name}_below`]), segment: rising(segments[one.segment][`${name}_below`]) },
      ...{ distance, bid },
    });
    return one.gaps && { wins: of("wins", one.gaps[0]), cost: of("cost", one.gaps[1]) };
  }

  // ----------------------------------------------------------------- answers

  /**
   * The forecast at a bid: impressions = supply × win and spend = impressions × cost / 1000.
   *
   * The curves in the page are those of an average day. Where prices are higher by a factor, as much
   * is won as at a bid lower by that factor, for a cost higher by it. Intervals do not move like
   * this, and are shown for an average day alone.
   */
  function forecastOf(one, bid, day) {
    const { curves, click_rate: rate } = one;
    const supply = supplyOn(one, day);
    const prices = day.kind === "weekday" ? data.prices_by_weekday[day.weekday] : 1;
    const at = (ys) => interpolate(grid, ys, bid / prices);
    const [win, cost] = [at(curves.win), prices * at(curves.cost)];
    const isAverage = day.kind === "mean" && day.supply === undefined;
    const figure = (value, low, high) =>
      isAverage ? { value, low: supply * at(low), high: supply * at(high) } : { value };
    const isSeen = bid >= grid[0] && bid <= grid[grid.length - 1];
    const seen = `${money(grid[0])} to ${money(grid[grid.length - 1])}`;
    const outside = `This is outside the bids seen (${seen}): the forecast stays as at the nearest of them.`;
    return {
      ...{ bid, supply, isRough: false, win: { value: win }, cost, conversions: null },
      impressions: figure(supply * win, curves.low, curves.high),
      spend: figure((supply * win * cost) / 1000, curves.spendLow, curves.spendHigh),
      clicks: rate === null ? null : { value: supply * win * rate },
      remark: isSeen ? "" : outside,
    };
  }

  function supplyOn(one, day) {
    return day.supply ?? (day.kind === "weekday" ? one.supply_by_weekday[day.weekday] : one.supply);
  }

  const answers = {
    zeroBids: true,
    forecast({ one, bids, day }) {
      const forecasts = bids.map((bid) => forecastOf(one, bid, day));
      return { one, day, supply: supplyOn(one, day), curve: one.source, forecasts };
    },
    at: ({ one, day }, bid) => forecastOf(one, bid, day),
    bidFor({ one, day, goal, amount }) {
      const at = (bid) => forecastOf(one, bid, day)[goal];
      const most = at(grid[grid.length - 1]);
      if (most === null) return { reached: false, why: `The log has no ${goal}: ask for another goal` };
      const bid = leastBid((value) => at(value).value, amount);
      const safe = most.low === undefined ? undefined : leastBid((value) => at(value).low, amount);
      if (bid !== null) return { reached: true, bid, safe_bid: safe };
      const format = goal === "spend" ? money : count;
      const highest = `about ${money(grid[grid.length - 1])}, is expected to give ${format(most.value)}`;
      const found = `the highest of any advertiser, ${highest} in ${count(supplyOn(one, day))} auctions`;
      return { reached: false, why: `No bid in the log reaches that: ${found}` };
    },
  };

  /** The least bid of the grid's range at which a rising function reaches an amount, or null. */
  function leastBid(valueAt, amount) {
    const place = grid.findIndex((bid) => valueAt(bid) >= amount);
    if (place < 0) return null;
    let [low, high] = [place ? grid[place - 1] : 0, grid[place]];
    // a bin as narrow as this holds one price of many auctions: nothing is won below it
    if (low > 0.9985 * high) return high;
    for (let round = 0; round < 60; round += 1) {
      const middle = (low + high) / 2;
      if (valueAt(middle) >= amount) high = middle;
      else low = middle;
    }
    return high;
  }

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

  /** Impressions and spend a day at the log's mean bid, of each advertiser. */
  function atMeanBid() {
    const { bid, supply, win, cost } = data.advertisers;
    return bid.map((mean, i) => {
      const at = (place) => interpolate(grid, data.curves[place], mean);
      const impressions = (supply[i] * at(win[i])) / 100;
      return { impressions, spend: (impressions * at(cost[i])) / 1000 };
    });
  }

  const PAGE = 25;

  /** The table of all advertisers; show({ group }) lists those of a segment. */
  function advertiserList(order, usual) {
    const { id, segment, confidence, observations, bid, supply } = data.advertisers;
    const nameOf = (i) => segments[segment[i]]?.name ?? "";
    const number = (title, values, format) => ({ title, key: (i) => values[i], cell: (i) => format(values[i]) });
    const columns = [
      { title: "Advertiser", text: true, key: (i) => id[i], cell: (i) => advertiserLink(i) },
      { title: "Segment", text: true, key: nameOf, cell: (i) => element("bdi", {}, nameOf(i)) },
      number("Confidence", confidence, percent),
      number("Bids seen", observations, count),
      number("Log’s mean bid", bid, money),
      number("Auctions a day", supply, count),
      number("Impressions a day", usual.map((at) => at.impressions), count),
      number("Spend a day", usual.map((at) => at.spend), money),
    ];
    return coterieTables.paged(find("advertiser-list"), {
      ...{ name: "Advertisers", label: "Filter by id", columns, pageSize: PAGE },
      groups: segments.map(({ name }) => name),
      column: columns.length - 1,
      load: coterieTables.loadFrom(order, { idOf: (i) => id[i], groupOf: (i) => segment[i], pageSize: PAGE }),
    });
  }

  function advertiserLink(i) {
    return element("a", { href: "#what-if", "data-advertiser": i }, idText(data.advertisers.id[i]));
  }

  // ---------------------------------------------------------------- segments

  /** Under the most typical members of a segment, a button that lists all of them. */
  function memberLists(listing) {
    for (const list of document.querySelectorAll("[data-members-of]")) {
      const group = Number(list.dataset.membersOf);
      const { length } = data.advertisers.segment.filter((at) => at === group);
      if (length <= list.children.length) continue;
      list.after(coterieTables.listButton(length, () => listing.show({ group, query: "" })));
    }
  }

  // ------------------------------------------------------------------- start

  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  const { id: ids } = data.advertisers;
  const usual = atMeanBid();
  const order = ids.map((_, i) => i).sort((a, b) => usual[b].spend - usual[a].spend);
  const items = order.map((index) => ({ index, name: ids[index], key: ids[index].toLowerCase() }));
  const bidShares = coterieSegmentCharts.bidShares({ grid, symbol });
  const panel = coterieWhatIf({ grid, symbol, interval, answers });
  const searching = {
    find: (query) => coterieCombobox.search(items, query, 40),
    nothing: data.left_out
      ? `None of those in this report has that in its id; ${data.left_out.toLocaleString("en")} others are left out`
      : "No advertiser has that in its id",
    describe: ({ index, name }) => [idText(name), element("small", {}, aboutAdvertiser(index))],
  };
  const box = coterieCombobox.combobox(find("advertiser"), find("advertisers-found"), {
    ...searching,
    onChoose: ({ index }) => choose(index),
  });
  coterieSideBySide.field(searching, (found) => panel.compareWith(found && loadAdvertiser(found.index)));
  find("advertiser-count").textContent = ids.length.toLocaleString("en");

  function choose(index) {
    const one = loadAdvertiser(index);
    box.show(one.id);
    find("facts").replaceChildren(...definitions(factsOf(one)));
    panel.show(one);
    bidShares.show(sharesOf(one), one.segment === null ? "all" : "segment");
  }

  choose(order[0]);
  coterieSegmentCharts.cards({
    grid,
    symbol,
    segments: segments.map((segment) => ({ ...segment, curves: curvesOf(segment) })),
  });
  memberLists(advertiserList(order, usual));
  for (const table of document.querySelectorAll("table.sortable")) coterieTables.enhance(table);
  coterieEvaluationCharts({
    ...{ data, money, symbol },
    onPick(id) {
      const place = ids.indexOf(id);
      if (place < 0) return;
      choose(place);
      find("what-if").scrollIntoView();
    },
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-advertiser]");
    if (link) choose(Number(link.dataset.advertiser));
  });
  window.addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
