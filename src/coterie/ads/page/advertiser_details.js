"use strict";
/*
 * The details of an advertiser, as nodes.
 *
 * Links to advertisers and segments are made by advertiserLink(id) and segmentLink(index, name);
 * the page decides what following them does.
 */
const coterieDetails = (() => {
  const { shape } = coterieCharts;
  const { percent, tally } = coterieNumbers;
  const { element, exact, idText, visible } = coterieNodes;
  const find = (id) => document.getElementById(id);
  const PARTLY = "its own curve, views and neighbours: browsers cannot ask for an id that is only dots";

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

  function facts(pairs) {
    find("facts").replaceChildren(
      ...pairs.map(([name, ...value]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, ...value)),
      ),
    );
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
    facts([...known, ...grounds()]);
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
    facts([["Segment", element("span", { id: "placed" })], ...grounds()]);
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

  return Object.freeze({ advertiserLink, showAdvertiser, showNewcomer });
})();
