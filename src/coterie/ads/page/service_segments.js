"use strict";
/*
 * The segments below the panel: a card each, that of the advertiser first.
 *
 * coterieSegments({ calls, symbol, onList }) asks for them; onList(place) is called to list all
 * members of a segment. The promise is of { segments, follow(place, bid) }, which puts the segment of
 * a place first (null: none) and reads all at a bid.
 */
const coterieSegments = (() => {
  const { percent, tally } = coterieNumbers;
  const { element, find, visible } = coterieNodes;

  async function segments({ calls, symbol, onList }) {
    const { grid, segments: all } = await calls.get("v1/segments");
    if (!all.length) return { segments: all, follow() {} };
    const bids = positive(grid);
    const cards = all.map((one) => card(one, () => onList(one.index)));
    find("cards").replaceChildren(...cards);
    find("segments").hidden = false;
    for (const words of document.querySelectorAll(".of-several")) words.hidden = all.length === 1;
    const more = find("all-segments");
    more.hidden = all.length === 1;
    more.textContent = `Show all ${all.length} segments`;
    more.addEventListener("click", () => find("cards").classList.add("all"));
    const charts = coterieSegmentCharts.cards({
      grid: bids,
      symbol,
      segments: all.map((one) => ({
        ...one,
        curves: { grid: bids, win: one.win, low: one.win_low, high: one.win_high, cost: one.cost },
      })),
    });

    function follow(place, bid) {
      cards.forEach((one, i) => one.classList.toggle("own", i === place));
      const wanted = place === null ? cards : [cards[place], ...cards.filter((_, i) => i !== place)];
      // a card that is moved loses the focus, and its open list
      if (wanted.some((one, i) => find("cards").children[i] !== one)) find("cards").replaceChildren(...wanted);
      charts.follow(bid);
    }

    return { segments: all, follow };
  }

  /** Bids are above 0: a grid that starts at 0 starts just above it. */
  function positive(grid) {
    return grid[0] > 0 ? grid : [grid[1] / 10, ...grid.slice(1)];
  }

  function member({ id, confidence }) {
    return element("li", {}, coterieAdvertisers.advertiserLink(id), element("small", {}, percent(confidence)));
  }

  function aboutSegment({ name, size, price_level: level, observations }) {
    const meta = [`${size.toLocaleString("en")} advertiser${size === 1 ? "" : "s"}`];
    // most names end with the price level
    if (level && !name.includes(level)) meta.push(visible(level));
    return [...meta, `${tally(observations)} bids`].join(" · ");
  }

  /** The card of a segment; onList is called to list all its members. */
  function card(segment, onList) {
    const { index, members, size } = segment;
    const charts = element("div", {});
    for (const [name, title] of [
      ["win", "auctions won"],
      ["cost", "paid per thousand (CPM)"],
    ]) {
      const reading = element("span", { class: "said", id: `segment-${index}-${name}-said` });
      charts.append(element("p", { class: "panel" }, element("span", {}, title), " ", reading));
      charts.append(element("div", { id: `segment-${index}-${name}` }));
    }
    const listed = element("div", { class: "listed" }, element("ol", { class: "members" }, ...members.map(member)));
    if (members.length < size) listed.append(coterieTables.listButton(size, onList));
    const mixture = segment.mixture ? [visible(segment.mixture), element("br")] : [];
    const badge = element("small", { class: "mine" }, "segment of this advertiser");
    return element(
      "article",
      { class: "card", id: `segment-${index}`, tabindex: "-1" },
      element("h3", {}, element("bdi", {}, visible(segment.name)), badge),
      element("p", { class: "words" }, visible(segment.words.join(", "))),
      element("p", { class: "meta" }, ...mixture, aboutSegment(segment)),
      charts,
      // one list is open at a time and covers the cards below
      element("details", { name: "members" }, element("summary", {}, "Members, most typical first"), listed),
    );
  }

  return Object.freeze({ positive, segments });
})();
