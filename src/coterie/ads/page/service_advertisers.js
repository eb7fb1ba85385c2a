"use strict";
/*
 * Advertisers on the page of the service: the search for one, its details, and the table of all.
 *
 * search(calls) is what a combobox needs to find advertisers; each one needs its own. The details link
 * to advertisers and segments; the page decides what following a link does. table({ calls, busy, symbol,
 * groups }) shows all of them, sorted and filtered by the service; groups are the names of the segments.
 */
const coterieAdvertisers = (() => {
  const { shape } = coterieCharts;
  const { money, percent, tally } = coterieNumbers;
  const { definitions, element, exact, find, idText, visible } = coterieNodes;
  const PAGE = 25;
  const PARTLY = "its own curve, views and neighbours: browsers cannot ask for an id that is only dots";

  // -------------------------------------------------------------------- search

  function aboutOne({ segment, segment_name: name, observations }) {
    const bids = `${tally(observations)} bids`;
    return segment === null ? bids : `${visible(name)} · ${bids}`;
  }

  function search(calls) {
    let searching = new AbortController();
    let total = 0;

    async function look(query) {
      searching.abort();
      searching = new AbortController();
      const asked = new URLSearchParams({ search: query.trim(), page_size: 20 });
      const answer = await calls.get(`v1/advertisers?${asked}`, searching.signal);
      total = answer.total;
      return answer.items.map((one) => ({ ...one, name: visible(one.id) }));
    }

    return {
      find: look,
      wait: 120,
      nothing: "No advertiser has that in its id",
      rest: ({ length }) =>
        length < total ? `${length} of ${total.toLocaleString("en")}: type more to narrow them down` : "",
      describe: (one) => [idText(one.id), element("small", {}, aboutOne(one))],
    };
  }

  // ------------------------------------------------------------------- details

  function advertiserLink(id) {
    const href = coterieAddress.write({ advertiser: id });
    return element("a", { href, "data-advertiser": id }, idText(id));
  }

  function segmentLink(index, name) {
    const text = element("bdi", {}, visible(name));
    if (index === null) return text;
    return element("a", { href: `#segment-${index}`, "data-segment": index }, text);
  }

  function bar(share) {
    const svg = shape("svg", {
      viewBox: "0 0 100 10",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    svg.append(shape("rect", { width: 100 * Math.min(1, share), height: 10 }));
    return element("span", { class: "bar" }, svg, exact(share, percent(share)));
  }

  /** The details of an advertiser, from AdvertiserDetail of the service. */
  function showAdvertiser(one) {
    const known = [];
    if (one.segment !== null) {
      known.push(["Segment", segmentLink(one.segment, one.segment_name)]);
      known.push(["Confidence", exact(one.confidence, percent(one.confidence))]);
    }
    known.push(["Bids seen", exact(one.observations, tally(one.observations))]);
    if (one.outlier) known.push(["Outlier", "its own curve is far from its segment’s"]);
    if (one.doubtful) known.push(["In doubt", "it belongs clearly to no segment"]);
    if (one.partly) known.push(["Not shown", PARTLY]);
    find("facts").replaceChildren(...definitions([...known, ...grounds()]));
    // without segments there are no shares and views to show
    const placed = one.shares.some(({ segment }) => segment !== null);
    const [shares, views] = placed ? [one.shares, one.views] : [[], []];
    const parts = { shares, views, neighbours: one.neighbours };
    find("shares").replaceChildren(...shares.map(share));
    find("views").replaceChildren(...views.map(view));
    find("neighbours").replaceChildren(...one.neighbours.map(neighbour));
    for (const [name, list] of Object.entries(parts)) find(name).parentNode.hidden = !list.length;
    find("known").hidden = !Object.values(parts).some((list) => list.length);
  }

  function showNewcomer() {
    const placed = ["Segment", element("span", { id: "placed" })];
    find("facts").replaceChildren(...definitions([placed, ...grounds()]));
    find("known").hidden = true;
  }

  /** Which curve was used and why; filled with every answer. */
  function grounds() {
    return [
      ["Curve used", element("span", { id: "curve" })],
      ["Why", element("bdi", { id: "why" })],
    ];
  }

  function share({ segment, name, share: size }) {
    const called = segment === null ? "no segment in particular" : segmentLink(segment, name);
    return element("li", {}, element("span", { class: "of" }, called), bar(size));
  }

  function view({ view: name, segment, segment_name: called, dissents }) {
    const where = segment === null ? "says nothing" : segmentLink(segment, called);
    const verdict = segment === null ? "" : dissents ? "dissents" : "agrees";
    return element(
      "li",
      dissents ? { class: "dissenting" } : {},
      element("span", { class: "of" }, element("strong", {}, name), " ", where),
      element("small", {}, verdict),
    );
  }

  function neighbour({ id, segment_name: name, likeness }) {
    const what = element("span", { class: "of" }, advertiserLink(id), element("small", {}, visible(name)));
    return element("li", {}, what, element("small", {}, exact(likeness, percent(likeness))));
  }

  // --------------------------------------------------------------------- table

  function table({ calls, busy, symbol, groups }) {
    const amount = (value) => money(value, symbol);
    const number = (title, key, format) => ({ title, key, cell: (one) => exact(one[key], format(one[key])) });
    const columns = [
      { title: "Advertiser", key: "id", text: true, cell: ({ id }) => advertiserLink(id) },
      { title: "Segment", key: "segment", text: true, cell: (one) => element("bdi", {}, visible(one.segment_name)) },
      number("Confidence", "confidence", percent),
      number("Bids seen", "observations", tally),
      number("Log’s mean bid", "bid", amount),
      number("Spend in the log", "spend", amount),
    ];

    async function load({ query, group, key, rising, page }) {
      const asked = new URLSearchParams({ search: query.trim(), page, page_size: PAGE });
      asked.set("sort", (rising ? "" : "-") + key);
      if (group !== null) asked.set("segment", group);
      return busy(calls.get(`v1/advertisers?${asked}`));
    }

    find("advertisers").hidden = false;
    return coterieTables.paged(find("advertiser-list"), {
      ...{ name: "Advertisers", label: "Filter by id", columns, groups, load },
      ...{ pageSize: PAGE, column: columns.length - 1 },
    });
  }

  return Object.freeze({ advertiserLink, search, showAdvertiser, showNewcomer, table });
})();
