"use strict";
/* Sharing a forecast: a link to it, its table as CSV, its charts as pictures. */
const coterieExports = (() => {
  const { shape } = coterieCharts;
  const { element, find, visible } = coterieNodes;

  /** Download a file. */
  function save(blob, name) {
    const address = URL.createObjectURL(blob);
    const link = element("a", { href: address, download: name });
    link.click();
    // the browser starts the download after this turn
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  /** A file name that is valid on any system. */
  function fileName(words, ending) {
    const plain = words.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "");
    return `${plain.slice(0, 80) || "forecast"}.${ending}`;
  }

  // ---------------------------------------------------------------------- CSV

  // A spreadsheet may start a cell at the beginning and, despite quotes, after each of these.
  const ENDS = ";\\t\\v\\f\\r\\n\\x85\\u2028\\u2029";
  // It may skip quotes, blanks and invisible characters before the sign of a formula.
  const PASSED = `(?:(?![${ENDS}])[\\s\\p{C}"])*`;
  const FORMULA = new RegExp(`(^|[${ENDS}])(?=${PASSED}[=+\\-@＝＋－＠﹦﹢﹣﹫])`, "gu");

  /** Text that no spreadsheet reads as a formula: it starts with an apostrophe. */
  function harmless(text) {
    const defused = text.replace(FORMULA, "$1'");
    return /^[\p{Cc}\u2028\u2029]/u.test(defused) ? `'${defused}` : defused;
  }

  /** A cell quoted by RFC 4180 that cannot be a formula. */
  function cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = harmless(value);
    return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  /** rows of objects with the same names, which become the first line. */
  function csv(rows) {
    const names = Object.keys(rows[0]);
    const lines = [names, ...rows.map((row) => names.map((name) => row[name]))];
    return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
  }

  // ------------------------------------------------------------------ pictures

  const LOOKS = [
    "fill",
    "fill-opacity",
    "font-family",
    "font-size",
    "font-weight",
    "opacity",
    "stroke",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-width",
    "text-anchor",
  ];
  const HEAD = 92;
  const MARGIN = 16;

  /** A copy with the page's style as attributes, which the content policy allows. */
  function dressed(svg) {
    const copy = svg.cloneNode(true);
    const copies = [copy, ...copy.querySelectorAll("*")];
    [svg, ...svg.querySelectorAll("*")].forEach((original, i) => {
      const look = getComputedStyle(original);
      for (const name of LOOKS) copies[i].setAttribute(name, look.getPropertyValue(name));
      copies[i].removeAttribute("class");
    });
    return copy;
  }

  /** The chart with a title and lines below it, as a separate SVG; returns its size too. */
  function sheet(svg, [title, ...below]) {
    const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
    const whole = { width: width + 2 * MARGIN, height: height + HEAD + MARGIN };
    const look = getComputedStyle(document.body);
    const text = (words, y, size, weight) =>
      shape(
        "text",
        {
          x: MARGIN,
          y,
          fill: look.color,
          "font-family": look.fontFamily,
          "font-size": size,
          "font-weight": weight,
        },
        visible(words).slice(0, Math.floor(width / (0.55 * size))),
      );
    const made = shape("svg", { ...whole, viewBox: `0 0 ${whole.width} ${whole.height}` });
    const chart = dressed(svg);
    chart.setAttribute("x", MARGIN);
    chart.setAttribute("y", HEAD);
    made.append(shape("rect", { ...whole, fill: look.backgroundColor }));
    made.append(text(title, 24, 16, 650), ...below.map((line, i) => text(line, 44 + 19 * i, 13, 400)));
    made.append(chart);
    return { made, ...whole };
  }

  /** A chart as a PNG of twice its size on the screen. */
  async function picture(svg, lines) {
    const { made, width, height } = sheet(svg, lines);
    const source = new XMLSerializer().serializeToString(made);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
    await image.decode();
    const canvas = element("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  // -------------------------------------------------------------------- buttons

  /** settings: panel (of what_if.js), model, period (its days), address (page_address.js), busy. */
  function tools({ panel, model, period, address, busy }) {
    const who = () => panel.shown().one.id ?? "new-advertiser";

    async function copyLink() {
      address.commit();
      const link = find("link");
      link.value = location.href;
      try {
        await navigator.clipboard.writeText(link.value);
        find("told").textContent = "Copied.";
      } catch {
        // some browsers forbid writing to the clipboard; the user copies the link then
        link.hidden = false;
        link.select();
        find("told").textContent = "Copy it from here:";
      }
    }

    async function savePicture(target) {
      const svg = document.querySelector(`#${target}-chart svg`);
      const { one, reply, bid, per, when } = panel.shown();
      if (!reply) return;
      const amount = coterieNumbers.money(bid, model.symbol);
      const supply = coterieNumbers.tally(reply.supply);
      // long texts come last, because a line is cut at the edge of the picture
      const lines = [
        `${target === "spend" ? "Spend" : "Impressions"} ${per} by bid`,
        `Bid ${amount}: ${one.id ?? "a new advertiser"}`,
        `${supply} auctions ${when}`,
        `Log of ${period}`,
      ];
      save(await picture(svg, lines), fileName(`${target}-${who()}`, "png"));
    }

    find("copy-link").addEventListener("click", copyLink);
    find("save-csv").addEventListener("click", () => {
      if (!panel.shown().reply) return;
      const table = new Blob([csv(rowsOf(panel.shown(), model))], { type: "text/csv" });
      save(table, fileName(`forecast-${who()}`, "csv"));
    });
    for (const button of document.querySelectorAll("[data-picture]")) {
      button.addEventListener("click", () => busy(savePicture(button.dataset.picture)));
    }
  }

  /** All exact values with all digits: the columns of the command line, then the others. */
  function rowsOf({ one, reply, day, curve, kept }, { currency }) {
    const rows = [...reply.exact.values()].sort((a, b) => a.bid - b.bid);
    const scenario = ({ bid }) => (kept.includes(bid) ? kept.indexOf(bid) + 1 : "");
    const figure = (at, name) => ({
      [name]: at[name]?.value,
      [`${name}_low`]: at[name]?.low,
      [`${name}_high`]: at[name]?.high,
    });
    return rows.map((at) => ({
      advertiser: reply.advertiser ?? one.id ?? "",
      bid: at.bid,
      supply: at.supply,
      win_rate: at.win.value,
      cost: at.cost,
      ...figure(at, "impressions"),
      ...figure(at, "spend"),
      ...figure(at, "clicks"),
      ...figure(at, "conversions"),
      level: reply.level,
      segment: reply.segment,
      curve: reply.curve,
      why: at.why,
      currency: reply.currency ?? currency,
      text: one.text ?? "",
      day: day.date ?? "",
      days: reply.days,
      model: reply.model.version,
      marginal_cost: coterieNumbers.marginalCost(curve, at.bid),
      scenario: scenario(at),
    }));
  }

  return Object.freeze({ csv, tools });
})();
