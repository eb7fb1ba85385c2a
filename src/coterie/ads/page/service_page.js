"use strict";
/* The script of the service page: connects search, panel, segments and address. */
(() => {
  const { tally } = coterieNumbers;
  const { button, element, find, goTo, visible } = coterieNodes;
  const { search, showAdvertiser, showNewcomer } = coterieAdvertisers;
  const { positive } = coterieSegments;
  const calls = coterieCalls(coterieNotices);
  const TITLE = document.title;
  const TYPING = 300;
  const MOST_EXAMPLES = 3;
  const CURVES = {
    pooled: "pooled: its own, completed by its segments’",
    alone: "pooled: its own, completed by that of all advertisers",
    text: "that of advertisers with similar texts",
    global: "that of all advertisers",
  };
  let model = null;
  let panel = null;
  let bidShares = null;
  let box = null;
  let besideBox = null;
  let shownBeside; // the id of the advertiser compared with
  let segments = null; // until they have come
  let state = {};
  let known; // the id of the advertiser last shown
  let ownSegment = null; // the index of the segment of who is shown; null: the answer names it
  let turn = 0;

  // ------------------------------------------------------------------- state

  /** Mark the page as busy while requests run, for styles and tests. */
  const busy = (() => {
    let under = 0;
    return (promise) => {
      under += 1;
      document.body.dataset.state = "asking";
      // after the callers of the promise have drawn the answer
      const over = () =>
        setTimeout(() => {
          under -= 1;
          if (!under) document.body.dataset.state = "settled";
        });
      promise.then(over, over);
      return promise;
    };
  })();

  const address = coterieAddress.steps(() => state);

  /** Store the question of the panel for the address, without default values. */
  function store({ one, bid, day, kept }) {
    const { advertiser, text, beside } = state;
    if (one === null) state = text === undefined ? { advertiser } : { text };
    else state = one.newcomer ? { text: one.text } : { advertiser: one.id };
    if (bid !== one?.bid) state.bid = bid;
    if (kept.length) state.kept = kept;
    if (beside !== undefined) state.beside = beside;
    if (day.kind !== "mean" || day.supply !== undefined) state.day = day;
    address.soon();
  }

  // --------------------------------------------------------------- who is shown

  function mode(who) {
    for (const radio of document.querySelectorAll("[name=who]")) radio.checked = radio.value === who;
    document.querySelector(".choose").hidden = who === "text";
    document.querySelector(".describe").hidden = who !== "text";
    find("explain").hidden = true;
    document.querySelector(".of-known").hidden = who === "text";
    // a model without texts cannot place by text; after such a link the user can still go back
    document.querySelector(".switch").hidden = !model.has_texts && who !== "text";
  }

  /** Show a state of the address, or of a link. */
  async function show(asked) {
    const ownTurn = (turn += 1);
    if (!isShown(asked)) leave();
    state = asked;
    showBeside(asked.beside);
    if (asked.text !== undefined) return showText(asked);
    mode("advertiser");
    try {
      const detail = await detailOf(asked.advertiser ?? (await largest()));
      if (ownTurn === turn) showKnown(detail, asked);
    } catch (fault) {
      if (ownTurn !== turn) return undefined;
      leave();
      box.show(visible(asked.advertiser ?? ""));
      panel.clear(fault.message);
    }
    return undefined;
  }

  /** Whether the figures shown belong to the current advertiser. */
  function isShown({ advertiser, text }) {
    const { one } = panel.shown();
    if (!one) return false;
    return one.newcomer ? one.text === text : text === undefined && one.id === advertiser;
  }

  /** Clear the figures before another advertiser is shown. */
  function leave() {
    panel.clear();
    document.title = TITLE;
    find("figures").hidden = false;
    setWaiting(true);
  }

  /** Request the details of an advertiser. */
  async function detailOf(id) {
    // browsers resolve "." and ".." in a path, even if they are encoded
    if (id === "." || id === "..") return listed(id);
    return calls.get(`v1/advertisers/${encodeURIComponent(id)}`);
  }

  /** An entry of the list of advertisers, in the form of details. */
  async function listed(id) {
    for (let page = 1; ; page += 1) {
      const asked = new URLSearchParams({ search: id, page, page_size: 100 });
      const { items, pages } = await calls.get(`v1/advertisers?${asked}`);
      const one = items.find((item) => item.id === id);
      const lists = { shares: [], views: [], neighbours: [] };
      if (one) return { ...one, ...lists, curves: {}, partly: true };
      // ids that start with the query come first
      if (page >= pages || !items[items.length - 1].id.startsWith(id)) {
        throw Object.assign(new Error("no such advertiser"), { status: 404 });
      }
    }
  }

  async function largest() {
    const { items } = await calls.get("v1/advertisers?page_size=1");
    return items[0].id;
  }

  function showKnown(detail, asked) {
    const { grid, own, segment } = detail.curves;
    const lines = [];
    const alone = detail.segment === null;
    const beside = alone ? { label: "all advertisers", curve: "global" } : { label: "segment" };
    find("beside-name").textContent = alone ? "that of all advertisers" : "its segment’s";
    if (segment) lines.push({ kind: "segment", ...beside, grid: positive(grid), ...segment });
    if (own) lines.push({ kind: "own", label: "own", grid: positive(grid), ...own });
    known = detail.id;
    ownSegment = detail.segment;
    box.show(visible(known));
    document.title = `${visible(detail.id)} · ${TITLE}`;
    showAdvertiser(detail);
    bidShares.show(detail.bid_shares ?? null, alone ? "all" : "segment");
    // an advertiser whose bids were all 0 has none to compare with
    panel.show({ id: detail.id, bid: detail.bid > 0 ? detail.bid : null, lines }, asked);
  }

  function showText(asked) {
    mode("text");
    if (find("text").value !== asked.text) find("text").value = asked.text;
    const text = asked.text.trim() === "" ? "" : asked.text;
    ownSegment = null;
    bidShares.show(null);
    if (text === "") onShow(null);
    else showNewcomer();
    find("explain").hidden = text !== "";
    panel.show({ id: null, bid: null, lines: [], newcomer: true, text }, asked);
  }

  // ------------------------------------------------------------------- answers

  /** Show the structure of the figures in their place, so that the page does not jump. */
  function setWaiting(isWaiting) {
    find("figures").classList.toggle("skeleton", isWaiting);
    find("figures").setAttribute("aria-busy", isWaiting);
  }

  /** Called before an answer is shown, or with null if there is none. */
  function onShow(reply, bid) {
    find("figures").hidden = reply === null;
    setWaiting(false);
    followSegment(reply, bid);
    if (reply === null) return;
    if (reply.model.version !== model.version) {
      const words = "A new model was loaded. The figures are from it, the rest of the page is from the old one.";
      coterieNotices.showNotice("model", words, "Load all anew", () => {
        address.commit();
        location.reload();
      });
    }
    find("curve").textContent = CURVES[reply.curve === "pooled" && !reply.segment ? "alone" : reply.curve];
    find("why").textContent = visible(reply.why);
    if (find("placed")) find("placed").textContent = visible(reply.segment) || "none";
  }

  function followSegment(reply, bid) {
    const named = segments?.segments.find(({ name }) => name === reply?.segment);
    segments?.follow(reply ? (ownSegment ?? named?.index ?? null) : null, bid);
  }

  // -------------------------------------------------------------------- search

  function searchBoxes() {
    box = coterieCombobox.combobox(find("advertiser"), find("advertisers-found"), {
      ...search(calls),
      onChoose: (one) => ask({ advertiser: one.id, day: periodOf(state), beside: state.beside }),
    });
    besideBox = coterieSideBySide.field(search(calls), (found) => compareWith(found?.id));
  }

  /** Compare with another advertiser, or with none, as a step of the history. */
  function compareWith(id) {
    state.beside = id;
    showBeside(id);
    address.commit();
  }

  function showBeside(id) {
    if (id === shownBeside) return;
    shownBeside = id;
    besideBox.show(visible(id ?? ""));
    panel.compareWith(id === undefined ? null : { id });
  }

  /** The period without the number of auctions, which is another advertiser's own. */
  function periodOf({ day }) {
    const { supply, ...period } = day ?? {};
    return period.kind ? period : undefined;
  }

  /** Show another advertiser, as a step of the history. */
  async function ask(asked) {
    address.leave();
    await busy(show(asked));
    address.commit();
  }

  function textBox() {
    let typing = 0;
    let skip = null;
    for (const radio of document.querySelectorAll("[name=who]")) {
      radio.addEventListener("change", () => {
        if (radio.value === "text") ask({ text: find("text").value });
        else ask({ advertiser: known });
      });
    }
    find("text").addEventListener("input", () => {
      clearTimeout(typing);
      skip?.();
      const shown = () => show({ ...state, advertiser: undefined, text: find("text").value });
      const rested = new Promise((resolve) => {
        skip = resolve;
        typing = setTimeout(() => resolve(shown()), TYPING);
      });
      busy(rested);
    });
  }

  // ------------------------------------------------------------------ segments

  async function showSegments() {
    let all = null;
    const { symbol } = model;
    segments = await coterieSegments.segments({ calls, symbol, onList: (group) => all.show({ group, query: "" }) });
    all = coterieAdvertisers.table({ calls, busy, symbol, groups: segments.segments.map(({ name }) => visible(name)) });
    const { reply, bid } = panel.shown();
    followSegment(reply, bid);
    showExamples(segments.segments.map(({ words }) => visible(words.join(" "))));
  }

  /** Texts to try, in the words of the segments. */
  function showExamples(texts) {
    for (const text of texts.filter(Boolean).slice(0, MOST_EXAMPLES)) {
      find("examples").append(button(text, () => ask({ ...state, text })), " ");
    }
  }

  // --------------------------------------------------------------------- model

  /** Describe the served model; return the days of its log as text. */
  function showModel() {
    const period = coterieNumbers.period(model.first_day, model.last_day);
    const many = (number, name) => `${number.toLocaleString("en")} ${name}${number === 1 ? "" : "s"}`;
    const loaded = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short", timeZone: "UTC" });
    const placed = model.segments ? ` in ${many(model.segments, "segment")}` : "";
    find("lead").textContent =
      `${many(model.advertisers, "advertiser")}${placed}, ` +
      `from the ${model.auction}-price auctions of ${period}.`;
    find("about-model").replaceChildren(
      "Model ",
      element("bdi", {}, visible(model.name)),
      `, version ${model.version}, of ${many(model.days, "day")} (${period}) and ${tally(model.rows)} bids; ` +
        `loaded ${loaded.format(new Date(model.loaded_at))} UTC.`,
    );
    // the initial day is the one after the last day of the log
    find("date").valueAsNumber = Date.parse(model.last_day) + 86_400_000;
    find("advertiser-count").textContent = model.advertisers.toLocaleString("en");
    const filled = {
      currency: model.currency || "currency units",
      interval: model.interval ? `${Math.round(100 * model.interval)}% ` : "",
    };
    for (const place of document.querySelectorAll("[data-model]")) {
      place.textContent = filled[place.dataset.model];
    }
    return period;
  }

  // ---------------------------------------------------------------------- start

  /** A link to another advertiser keeps the bids and the period, for comparison. */
  function aim(event) {
    const link = event.target.closest("a[data-advertiser]");
    const { bid: shown } = panel.shown();
    if (!link || shown === undefined) return;
    const { day, kept, beside, bid = Number(shown.toPrecision(4)) } = state;
    link.href = coterieAddress.write({ advertiser: link.dataset.advertiser, bid, kept, day, beside });
  }

  /** Links within the page do not change the address, which holds the question. */
  function follow(event) {
    const link = event.target.closest("a[href^='#']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const leads = "advertiser" in link.dataset;
    if (leads) address.leave();
    const place = leads ? find("what-if") : document.querySelector(link.getAttribute("href"));
    if (!leads) event.preventDefault();
    if (place) goTo(place);
  }

  function takeAddress() {
    const asked = address.taken();
    if (asked) busy(arrive(asked));
  }

  /** Show the state of the address, and the parts of it that are not valid. */
  async function arrive(asked) {
    const ownTurn = turn + 1;
    const unused = visible(coterieAddress.unused(location.hash).join(", "));
    await show(asked);
    address.settle();
    if (!unused || ownTurn !== turn) return;
    panel.remark(`This part of the link could not be used, and is left out: ${unused}.`);
  }

  async function start() {
    model = await calls.get("v1/model");
    const period = showModel();
    coterieNotices.warn(model.warnings);
    /** Answers whose requests mark the page as busy. */
    const watched = () => {
      const { at, zeroBids, ...asking } = coterieForecastSource({ post: calls.post });
      const marking = Object.entries(asking).map(([name, ask]) => [name, (...given) => busy(ask(...given))]);
      return { at, zeroBids, ...Object.fromEntries(marking) };
    };
    panel = coterieWhatIf({
      ...{ symbol: model.symbol, currency: model.currency, interval: model.interval },
      grid: positive(model.grid),
      lastDay: model.last_day,
      answers: watched(),
      answersBeside: watched(),
      onAsk: store,
      onShow,
    });
    bidShares = coterieSegmentCharts.bidShares({ grid: positive(model.grid), symbol: model.symbol });
    document.querySelector(".controls").inert = false;
    searchBoxes();
    textBox();
    coterieExports.tools({ panel, model, period, address, busy });
    for (const kind of ["pointerdown", "click"]) document.addEventListener(kind, aim);
    document.addEventListener("click", follow);
    for (const kind of ["change", "pointerup", "focusout"]) find("what-if").addEventListener(kind, address.ended);
    window.addEventListener("popstate", takeAddress);
    window.addEventListener("hashchange", takeAddress);
    window.addEventListener("beforeprint", () => {
      for (const part of document.querySelectorAll("#what-if details")) part.open = true;
    });
    await Promise.all([arrive(coterieAddress.read(location.hash)), showSegments()]);
  }

  busy(start()).catch((fault) => {
    coterieNotices.showNotice("fault", fault.message, "Try again", () => location.reload());
  });
})();
