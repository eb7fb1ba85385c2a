"use strict";
/*
 * Tables that can be sorted and filtered.
 *
 * coterieTables.enhance(table) makes a table of the page sortable by its headers; with the attribute
 * data-filter it gets a field that hides the rows without a text. coterieTables.paged(host, settings)
 * shows a long list page by page, from a source that sorts and filters it.
 *
 * What was sorted and filtered is kept for the tab, under the name of the table, so that a reload
 * shows it again.
 */
const coterieTables = (() => {
  const { button, element, find, goTo } = coterieNodes;
  const SIZES = { k: 1e3, M: 1e6, B: 1e9 };
  const TYPING = 150; // milliseconds after the last key
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  // -------------------------------------------------------------------- state

  /** What is kept of a table: { column, rising, query, group, page }; forbidden storage keeps nothing. */
  function keeper(name) {
    const key = `coterie-table ${location.pathname} ${name}`;
    try {
      const storage = window.sessionStorage;
      const state = JSON.parse(storage.getItem(key) ?? "{}");
      return { state, keep: () => storage.setItem(key, JSON.stringify(state)) };
    } catch {
      return { state: {}, keep() {} };
    }
  }

  // ------------------------------------------------------------------- values

  /** The first number of a text as people write it, such as "−1.2M" or "€3,400"; null if it has none. */
  function numberIn(text) {
    const [, sign, digits, size] = /([-−])?[^\d.]*?(\d*\.?\d+)([kMB])?/.exec(text.replace(/[,\s]/g, "")) ?? [];
    return digits === undefined ? null : (sign ? -1 : 1) * digits * (SIZES[size] ?? 1);
  }

  function valueOf(cell) {
    const text = cell.textContent.trim();
    if (cell.matches("th, .text")) return text === "" || text === "–" ? null : text;
    return numberIn(cell.querySelector("data")?.value ?? text);
  }

  function compare(a, b) {
    if (a === null || b === null) return null;
    return typeof a === "string" ? order.compare(a, b) : a - b;
  }

  /** Sort items by their keys, stably; items without a key are last in both directions. */
  function sorted(items, keyOf, rising) {
    const keys = new Map(items.map((item) => [item, keyOf(item)]));
    return [...items].sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      return (compare(a, b) ?? (a === null) - (b === null)) * (a === null || b === null || rising ? 1 : -1);
    });
  }

  // ------------------------------------------------------------------ headers

  /** The header of each column: in several rows of headers the lowest one. */
  function headersOf({ rows }) {
    const taken = [...rows].map(() => []);
    [...rows].forEach((row, top) => {
      for (const cell of row.cells) {
        let left = 0;
        while (taken[top][left]) left += 1;
        for (let y = top; y < Math.min(top + cell.rowSpan, rows.length); y += 1) {
          for (let x = left; x < left + cell.colSpan; x += 1) taken[y][x] = cell;
        }
      }
    });
    return taken[rows.length - 1];
  }

  /** Put a button into each header; a press sorts, a second one in the other direction. */
  function wireHeaders(headers, state, onSort) {
    function mark() {
      headers.forEach((header, column) => {
        header.removeAttribute("aria-sort");
        if (column === state.column) header.setAttribute("aria-sort", state.rising ? "ascending" : "descending");
      });
    }

    headers.forEach((header, column) => {
      if (header.tagName !== "TH") return;
      const button = element("button", { type: "button", class: "sort" }, ...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        // of numbers the largest are of interest, of texts the first
        const first = header.matches(".text, :first-child");
        state.rising = state.column === column ? !state.rising : first;
        state.column = column;
        mark();
        onSort();
      });
    });
    mark();
  }

  // ------------------------------------------------------------------- filter

  /** A field that filters: onFilter is called when a person has stopped typing. */
  function filterField(name, label, state, onFilter) {
    const id = `filter-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
    const field = element("input", { id, type: "search", autocomplete: "off", spellcheck: "false" });
    const count = element("span", { class: "count", role: "status" });
    field.value = state.query ?? "";
    let typing = 0;
    field.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        state.query = field.value;
        onFilter();
      }, TYPING);
    });
    const line = element("div", { class: "filter on-screen" }, element("label", { for: id }, label), field, count);
    return { line, field, count };
  }

  // ------------------------------------------------------------ tables in pages

  /** Make a table sortable; its name is that of the region around it. */
  function enhance(table) {
    const region = table.closest(".scroll") ?? table;
    const name = region.getAttribute("aria-label") ?? table.id;
    const { state, keep } = keeper(name);
    const [body] = table.tBodies;
    const rows = [...body.rows];

    function sort() {
      if (state.column === undefined) return;
      body.append(...sorted(rows, (row) => valueOf(row.cells[state.column]), state.rising));
    }

    wireHeaders(headersOf(table.tHead), state, () => {
      sort();
      keep();
    });
    sort();
    if (table.dataset.filter) addFilter(region, rows, { name, label: table.dataset.filter, state, keep });
  }

  function addFilter(region, rows, { name, label, state, keep }) {
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const { line, count } = filterField(name, label, state, () => {
      apply();
      keep();
    });

    function apply() {
      const wanted = (state.query ?? "").trim().toLowerCase();
      for (const row of rows) row.hidden = !texts.get(row).includes(wanted);
      const shown = rows.filter((row) => !row.hidden).length;
      count.textContent = wanted ? `${shown} of ${rows.length}` : "";
    }

    region.before(line);
    apply();
  }

  // -------------------------------------------------------------- long lists

  /**
   * A long list, page by page.
   *
   * settings: name, label (of the filter), columns ({ title, text, cell(item), key }), groups
   * (names to choose one from, by index), column and rising (the first order), pageSize and
   * load({ query, group, key, rising, page }), which gives { items, total }, or a promise of them.
   * show({ query, group }) asks for other items.
   */
  function paged(host, { name, label, columns, groups, pageSize, load, ...first }) {
    const { state, keep } = keeper(name);
    for (const [key, value] of Object.entries({ page: 1, query: "", group: null, ...first })) state[key] ??= value;
    let turn = 0;
    const filter = filterField(name, label, state, () => show({}));
    const choice = choiceOf(groups, (group) => show({ group }));
    if (groups.length > 1) filter.field.after(choice);
    const body = element("tbody");
    const turnPage = (step) => show({ page: state.page + step });
    const [before, after] = [button("Previous", () => turnPage(-1)), button("Next", () => turnPage(1))];
    const pages = element("div", { class: "pages on-screen" }, before, after);
    const headers = columns.map(({ title, text }) => element("th", { scope: "col", class: text ? "text" : "" }, title));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...headers)), body);
    const region = { class: "scroll", role: "region", "aria-label": name, tabindex: "0" };
    host.replaceChildren(filter.line, element("div", region, table), pages);
    wireHeaders(headers, state, () => show({}));

    async function show(asked) {
      const ownTurn = (turn += 1);
      Object.assign(state, { page: 1 }, asked);
      keep();
      filter.field.value = state.query;
      choice.value = state.group ?? "";
      const { key } = columns[state.column] ?? columns[0];
      const { items, total } = await load({ ...state, key });
      if (ownTurn !== turn) return;
      body.replaceChildren(...items.map((item) => rowOf(item, columns)));
      const start = (state.page - 1) * pageSize;
      const range = `${start + 1}–${start + items.length} of ${total.toLocaleString("en")}`;
      filter.count.textContent = items.length ? range : "none found";
      before.disabled = state.page <= 1;
      after.disabled = start + items.length >= total;
      pages.hidden = total <= pageSize && state.page === 1;
    }

    show({ page: state.page });
    return Object.freeze({ show });
  }

  /** A button that lists all of a group in the table of advertisers; show puts them there. */
  function listButton(number, show) {
    return button(`List all ${number.toLocaleString("en")}`, () => {
      show();
      goTo(find("advertisers"));
    });
  }

  /** Load for a long list that is in the page: items whose id has the query, and that fit the group. */
  function loadFrom(items, { idOf, groupOf, pageSize }) {
    return ({ query, group, key, rising, page }) => {
      const wanted = query.trim().toLowerCase();
      const isWanted = (one) => idOf(one).toLowerCase().includes(wanted) && (group === null || groupOf(one) === group);
      const found = sorted(items.filter(isWanted), key, rising);
      return { items: found.slice((page - 1) * pageSize, page * pageSize), total: found.length };
    };
  }

  function choiceOf(groups, onChoose) {
    const choice = element("select", { "aria-label": "Segment" }, new Option("All segments", ""));
    groups.forEach((group, i) => choice.append(new Option(group, i)));
    choice.addEventListener("change", () => onChoose(choice.value === "" ? null : Number(choice.value)));
    return choice;
  }

  function rowOf(item, columns) {
    const cells = columns.map(({ text, cell }, i) =>
      element(i ? "td" : "th", i ? { class: text ? "text" : "" } : { scope: "row" }, cell(item)),
    );
    return element("tr", {}, ...cells);
  }

  return Object.freeze({ enhance, listButton, loadFrom, numberIn, paged });
})();
