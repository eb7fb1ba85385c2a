"use strict";
/* The script of the report: draws heat maps and the map of points, sorts tables, filters points. */
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ------------------------------------------------------------------ tables

  /** The value of a cell: its number if it has one, else its text; null if it is empty. */
  function valueOf(cell) {
    const value = cell.dataset.value;
    if (value === undefined) return cell.textContent.trim();
    return value === "" ? null : Number(value);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  /** Sort the rows by a column; rows without a value are last in both directions. */
  function sortRows(table, column, direction) {
    const rows = [...table.tBodies[0].rows];
    const keys = new Map(rows.map((row) => [row, valueOf(row.cells[column])]));
    rows.sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return direction * compare(a, b);
    });
    table.tBodies[0].append(...rows);
  }

  function makeSortable(table) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      header.replaceChildren(button);
      button.addEventListener("click", () => {
        const rising = header.getAttribute("aria-sort") !== "ascending";
        for (const other of headers) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", rising ? "ascending" : "descending");
        sortRows(table, column, rising ? 1 : -1);
      });
    });
  }

  /** Show only the points whose row has the text, and say how many these are. */
  function makeFilter(input) {
    const rows = [...find("points").tBodies[0].rows];
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    input.addEventListener("input", () => {
      const query = input.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !texts.get(row).includes(query);
      const shown = rows.filter((row) => !row.hidden).length;
      find("filter-count").textContent = query ? `${shown} of ${rows.length}` : "";
    });
  }

  // --------------------------------------------------------------- heat maps

  const [SIDE, LINE] = [1000, 3];

  /** A heat map: cells are bytes, 255 for the value 1; the opacity of a cell is its value. */
  function heatMap(canvas, said, { cells, blocks, names }) {
    const values = Uint8Array.from(atob(cells), (one) => one.charCodeAt(0));
    const size = names.length;
    const pen = canvas.getContext("2d");
    const font = "28px system-ui, sans-serif";
    pen.font = font;
    const margin = Math.ceil(Math.max(...blocks.map(([name]) => pen.measureText(name).width))) + 14;
    const step = (SIDE - margin - LINE) / size;
    // the names of the blocks are on the left, so that the picture is not square
    canvas.width = SIDE;
    canvas.height = SIDE - margin + LINE;

    function draw() {
      const small = new OffscreenCanvas(size, size);
      const paint = small.getContext("2d");
      const image = paint.createImageData(size, size);
      paint.fillStyle = colourOf("--main");
      paint.fillRect(0, 0, 1, 1);
      const [red, green, blue] = paint.getImageData(0, 0, 1, 1).data;
      values.forEach((value, i) => image.data.set([red, green, blue, value], 4 * i));
      paint.putImageData(image, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(small, margin, LINE, step * size, step * size);
      drawBlocks();
    }

    /** Outline the blocks on the diagonal, and name those that are high enough for a name. */
    function drawBlocks() {
      pen.strokeStyle = pen.fillStyle = colourOf("--pick");
      pen.lineWidth = LINE;
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      pen.font = font;
      let start = 0;
      for (const [name, length] of blocks) {
        const side = length * step;
        pen.strokeRect(margin + start, LINE + start, side, side);
        if (side >= 30) pen.fillText(name, margin - 8, LINE + start + side / 2);
        start += side;
      }
    }

    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const scale = SIDE / box.width;
      const column = Math.floor(((event.clientX - box.left) * scale - margin) / step);
      const row = Math.floor(((event.clientY - box.top) * scale - LINE) / step);
      if (Math.min(row, column) < 0 || Math.max(row, column) >= size) return;
      const value = (values[row * size + column] / 255).toFixed(2);
      said.textContent = `${names[row]} and ${names[column]}: ${value}`;
    });
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    matchMedia("print").addEventListener("change", draw);
  }

  // ------------------------------------------------------------ map of points

  const MARGIN = 34;

  function shape(tag, attributes, text = "") {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  }

  const nameOf = (cluster) => (cluster < 0 ? "no label" : `cluster ${cluster}`);

  /** Points without a label are below the others, and certain points above uncertain ones. */
  function pointsMap(host, { x, y, cluster, confidence, names, axes }) {
    // one unit a pixel, so that texts can be read on a phone too
    const width = Math.max(300, Math.floor(host.clientWidth));
    const height = Math.round(Math.min(0.6 * width + 60, 560));
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Map of the points: ${axes[0]} across, ${axes[1]} up`,
    });
    const order = x.map((_, i) => i).sort((a, b) => confidence[a] - confidence[b]);
    for (const i of order) {
      const share = cluster[i] < 0 ? 0.5 : confidence[i];
      const dot = shape("circle", {
        cx: (MARGIN + x[i] * (width - 2 * MARGIN)).toFixed(1),
        cy: (height - MARGIN - y[i] * (height - 2 * MARGIN)).toFixed(1),
        r: (2.4 + 2 * share).toFixed(1),
        fill: data.colours.at(cluster[i]),
        "fill-opacity": (0.15 + 0.85 * share).toFixed(2),
        "data-cluster": cluster[i],
      });
      const certainty = cluster[i] < 0 ? "" : `, confidence ${confidence[i].toFixed(2)}`;
      dot.append(shape("title", {}, `${names[i]}: ${nameOf(cluster[i])}${certainty}`));
      svg.append(dot);
    }
    svg.append(
      shape("text", { class: "end", x: width - 10, y: height - 10 }, axes[0]),
      shape("text", { x: 10, y: 20 }, axes[1]),
    );
    host.replaceChildren(svg);
  }

  /** One button a cluster, which shows its points alone. */
  function legend(host) {
    const clusters = [...new Set(data.points.cluster)].sort((a, b) => a - b);
    const buttons = clusters.map((cluster) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      const swatch = shape("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" });
      swatch.append(shape("circle", { cx: 5, cy: 5, r: 5, fill: data.colours.at(cluster) }));
      button.append(swatch, ` ${nameOf(cluster)}`);
      button.addEventListener("click", () => {
        const chosen = button.getAttribute("aria-pressed") === "false";
        for (const other of buttons) other.setAttribute("aria-pressed", String(chosen && other === button));
        for (const dot of document.querySelectorAll("#points-map circle")) {
          dot.classList.toggle("outside", chosen && dot.dataset.cluster !== String(cluster));
        }
      });
      return button;
    });
    host.replaceChildren(...buttons);
  }

  // ------------------------------------------------------------------- start

  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
  if (find("filter")) makeFilter(find("filter"));
  for (const name of ["agreement", "coassociation"]) {
    const canvas = find(`${name}-map`);
    if (canvas) heatMap(canvas, find(`${name}-said`), data[name]);
  }
  if (data.points) {
    pointsMap(find("points-map"), data.points);
    legend(find("legend"));
  }
  window.addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
