"use strict";
/* What a combobox needs to find advertisers of the service; each one needs its own. */
const coterieSearch = (() => {
  const { tally } = coterieNumbers;
  const { element, idText, visible } = coterieNodes;

  function aboutOne({ segment, segment_name: name, observations }) {
    const bids = `${tally(observations)} bids`;
    return segment === null ? bids : `${visible(name)} · ${bids}`;
  }

  function search(calls) {
    let searching = new AbortController();
    let total = 0;

    async function find(query) {
      searching.abort();
      searching = new AbortController();
      const asked = new URLSearchParams({ search: query.trim(), page_size: 20 });
      const answer = await calls.get(`v1/advertisers?${asked}`, searching.signal);
      total = answer.total;
      return answer.items.map((one) => ({ ...one, name: visible(one.id) }));
    }

    return {
      find,
      wait: 120,
      nothing: "No advertiser has that in its id",
      rest: ({ length }) =>
        length < total ? `${length} of ${total.toLocaleString("en")}: type more to narrow them down` : "",
      describe: (one) => [idText(one.id), element("small", {}, aboutOne(one))],
    };
  }

  return search;
})();
