"use strict";
/*
 * The table of all advertisers, sorted and filtered by the service.
 *
 * coterieAdvertisers({ calls, busy, symbol, groups }) shows it; groups are the names of the segments.
 * list(place) shows the members of a segment and moves there.
 */
const coterieAdvertisers = (() => {
  const { money, percent, tally } = coterieNumbers;
  const { element, exact, visible } = coterieNodes;
  const find = (id) => document.getElementById(id);
  const PAGE = 25;

  function advertisers({ calls, busy, symbol, groups }) {
    const amount = (value) => money(value, symbol);
    const number = (title, key, format) => ({ title, key, cell: (one) => exact(one[key], format(one[key])) });
    const columns = [
      { title: "Advertiser", key: "id", text: true, cell: ({ id }) => coterieDetails.advertiserLink(id) },
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
    const listing = coterieTables.paged(find("advertiser-list"), {
      ...{ name: "Advertisers", label: "Filter by id", columns, groups, load },
      ...{ pageSize: PAGE, column: columns.length - 1 },
    });

    function list(group) {
      listing.show({ group, query: "" });
      find("advertisers").scrollIntoView();
      find("advertisers").focus({ preventScroll: true });
    }

    return Object.freeze({ list });
  }

  return advertisers;
})();
