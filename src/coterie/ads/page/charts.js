"use strict";
/* SVG charts for any page: they use only their arguments and set all text as text. */
const coterieCharts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const { interpolate } = coterieNumbers;
  const { bidByKey, bidScale, bidTicks, scale, ticksTo } = coterieScales;

  function shape(tag, attributes = {}, text = null) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== null) element.textContent = text;
    return element;
  }

  /** One unit per pixel; a narrower place, as on paper, scales the whole chart. */
  function setSize(svg, width, height) {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
  }

  function pathThrough(xs, ys) {
    return "M" + xs.map((x, i) => `${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("L");
  }

  /** Call draw(width) now and whenever the width of the host changes. */
  function drawToWidth(host, draw) {
    let drawn = 0;
    const refresh = () => {
      const width = Math.floor(host.clientWidth);
      if (width > 0 && width !== drawn) draw((drawn = width));
    };
    new ResizeObserver(refresh).observe(host);
    refresh();
  }

  /** The parts of a chart whose values from least to most are pointed at, empty in their host. */
  function pointedChart(host, kind, label, [least, most]) {
    const range = { "aria-label": label, "aria-valuemin": least, "aria-valuemax": most };
    const svg = shape("svg", { class: kind, role: "slider", tabindex: "0", ...range });
    const [axes, plot, pointer] = ["axes", "plot", "pointer"].map((name) => shape("g", { class: name }));
    svg.append(axes, plot, pointer);
    const tip = coterieNodes.element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    host.replaceChildren(svg, tip);
    host.classList.add("charted");
    return { svg, axes, plot, pointer, tip };
  }

  /**
   * A chart of curves over the bids of a grid, with a pointer that reads them.
   *
   * settings: grid, label (for screen readers), height, formatBid, formatTick,
   *   ticks (how many at most), onHover(bid or null), and optional onPick(bid), bidTitle,
   *   leastTickLength (in characters, so that charts one above the other line up).
   * show({ lines, band, marks, dots, gap, top }): lines are { values, kind, label, bids }, kind one of
   *   "main", "own", "segment", "context", bids those of the values (by default the grid);
   *   band is { low, high, bids }; marks are { bid, label }; dots are { bid, value, label }; gap is
   *   { bid, low, high }, a distance to be shown, or null.
   * point(bid, text, tip): put the pointer at a bid; text tells a screen reader what it reads; tip
   *   is the nodes of a tooltip there, or null.
   */
  function curveChart(host, settings) {
    const { grid, label } = settings;
    const ends = [grid[0], grid[grid.length - 1]];
    const { svg, axes, plot, pointer, tip } = pointedChart(host, "chart", label, ends);
    let frame = null;
    let shown = null;
    let pointed = null;

    function redraw(width) {
      if (!shown) return;
      frame = layOut(shown, width, settings);
      setSize(svg, width, settings.height);
      drawAxes(axes, frame, settings);
      drawCurves(plot, frame, shown, grid);
      drawPointer();
    }

    function drawPointer() {
      pointer.replaceChildren();
      if (pointed === null || !frame) return;
      const x = frame.x(Math.min(ends[1], Math.max(ends[0], pointed)));
      pointer.append(shape("line", { x1: x, x2: x, y1: frame.top, y2: frame.bottom }));
      for (const line of shown.lines.filter(({ kind }) => kind !== "context")) {
        const y = frame.y(interpolate(line.bids ?? grid, line.values, pointed));
        pointer.append(
          shape("circle", { class: line.kind, cx: x, cy: y, r: line.kind === "main" ? 4.5 : 3 }),
        );
        if (line.kind === "main" && !tip.hidden) placeTip(tip, x, y, frame.width);
      }
    }

    handlePointer(svg, {
      bidAt(event) {
        const box = svg.getBoundingClientRect();
        return frame && frame.x.invert(((event.clientX - box.left) / box.width) * frame.width);
      },
      bidAfter: (key) => bidByKey(key, pointed ?? ends[0], grid),
      pointed: () => pointed,
      ...settings,
    });
    drawToWidth(host, redraw);

    return {
      show(next) {
        shown = next;
        redraw(Math.floor(host.clientWidth) || 600);
      },
      point(bid, text, nodes = null) {
        pointed = bid;
        svg.setAttribute("aria-valuenow", Number(bid.toPrecision(4)));
        svg.setAttribute("aria-valuetext", text);
        tip.hidden = nodes === null;
        tip.replaceChildren(...(nodes ?? []));
        drawPointer();
      },
    };
  }

  function layOut(shown, width, settings) {
    const { grid, height, formatBid, formatTick, bidTitle, leastTickLength = 0 } = settings;
    const ticks = ticksTo(shown.top, settings.ticks);
    const named = shown.lines.filter((line) => line.label);
    const right = named.length
      ? 12 + 7.6 * Math.max(...named.map((line) => line.label.length))
      : // half of the last bid's label is beyond its tick
        Math.max(8, 3 + 3.4 * Math.max(...bidTicks(grid, 9).map((bid) => formatBid(bid).length)));
    const box = {
      width,
      left: 10 + 7 * Math.max(leastTickLength, ...ticks.map((value) => formatTick(value).length)),
      right: width - right,
      top: shown.marks.length ? 20 : 8,
      bottom: height - (bidTitle ? 38 : 20),
    };
    const x = bidScale(grid, box.left, box.right);
    return { ...box, ticks, x, y: scale(0, ticks[ticks.length - 1], box.bottom, box.top) };
  }

  /** Put a tooltip beside a point, on the side with more room, above it where that fits. */
  function placeTip(tip, x, y, width) {
    const late = x > width / 2;
    tip.style.left = late ? "auto" : `${x + 12}px`;
    tip.style.right = late ? `${width - x + 12}px` : "auto";
    tip.style.top = `${Math.max(0, y - tip.offsetHeight - 8)}px`;
  }

  // a finger that moves less than this many pixels taps
  const TAP = 8;

  /**
   * Read a chart with a mouse, a finger or the keyboard, and choose a bid with them.
   *
   * A mouse reads where it is, a finger while it is down. A press, a tap and the arrow keys choose;
   * Escape takes back what the keys chose.
   */
  function handlePointer(svg, { bidAt, bidAfter, pointed, onHover, onPick }) {
    let down = null; // where a finger was put down
    let before = null; // the bid when the chart got the focus

    function pick(bid) {
      onPick?.(bid);
      onHover(bid);
    }

    svg.addEventListener("pointerdown", (event) => {
      const bid = bidAt(event);
      if (bid === null) return;
      if (event.pointerType === "mouse") {
        svg.setPointerCapture(event.pointerId);
        pick(bid);
      } else {
        down = event.clientX;
        onHover(bid);
      }
    });
    svg.addEventListener("pointermove", (event) => {
      const bid = bidAt(event);
      if (bid === null) return;
      if (event.pointerType === "mouse" && event.buttons) pick(bid);
      else onHover(bid);
    });
    svg.addEventListener("pointerup", (event) => {
      if (event.pointerType === "mouse" || !onPick) return;
      if (down !== null && Math.abs(event.clientX - down) < TAP) onPick(bidAt(event));
      onHover(null);
    });
    for (const kind of ["pointercancel", "pointerleave"]) {
      svg.addEventListener(kind, (event) => {
        if (event.pointerType === "mouse" || onPick) onHover(null);
      });
    }
    svg.addEventListener("focus", () => {
      before = pointed();
      if (before !== null && svg.matches(":focus-visible")) onHover(before);
    });
    svg.addEventListener("blur", () => onPick && onHover(null));
    svg.addEventListener("keydown", (event) => {
      const bid = event.key === "Escape" ? before : bidAfter(event.key);
      if (bid === null) return;
      event.preventDefault();
      pick(bid);
    });
  }

  function drawAxes(group, frame, { grid, formatBid, formatTick, bidTitle }) {
    group.replaceChildren();
    for (const value of frame.ticks) {
      const y = frame.y(value);
      group.append(
        shape("line", {
          class: value === 0 ? "base" : "rule",
          x1: frame.left,
          x2: frame.right,
          y1: y,
          y2: y,
        }),
        shape("text", { class: "end", x: frame.left - 6, y: y + 4 }, formatTick(value)),
      );
    }
    for (const bid of bidTicks(grid, Math.max(2, (frame.right - frame.left) / 48))) {
      const x = frame.x(bid);
      group.append(
        shape("line", { class: "base", x1: x, x2: x, y1: frame.bottom, y2: frame.bottom + 4 }),
        shape("text", { class: "middle", x, y: frame.bottom + 16 }, formatBid(bid)),
      );
    }
    if (bidTitle) {
      group.append(shape("text", { class: "end title", x: frame.right, y: frame.bottom + 33 }, bidTitle));
    }
  }

  function drawCurves(group, frame, { lines, band, marks, dots = [], gap = null }, grid) {
    group.replaceChildren();
    const along = (bids) => (bids ?? grid).map(frame.x);
    if (band) {
      const xs = along(band.bids);
      const there = pathThrough(xs, band.high.map(frame.y));
      const back = pathThrough([...xs].reverse(), [...band.low].reverse().map(frame.y));
      group.append(shape("path", { class: "band", d: `${there}L${back.slice(1)}Z` }));
    }
    for (const { bid, label } of marks) {
      const x = frame.x(Math.min(grid[grid.length - 1], Math.max(grid[0], bid)));
      const late = x > (frame.left + frame.right) / 2;
      group.append(
        shape("line", { class: "mark", x1: x, x2: x, y1: frame.top - 14, y2: frame.bottom }),
        shape(
          "text",
          { class: `mark ${late ? "end" : ""}`, x: x + (late ? -5 : 5), y: frame.top - 6 },
          label,
        ),
      );
    }
    for (const { values, kind, bids } of lines) {
      const d = pathThrough(along(bids), values.map(frame.y));
      group.append(shape("path", { class: `line ${kind}`, d }));
    }
    for (const { bid, value, label } of dots) {
      if (bid < grid[0] || bid > grid[grid.length - 1]) continue;
      const [x, y] = [frame.x(bid), frame.y(value)];
      group.append(
        shape("circle", { class: "kept", cx: x, cy: y, r: 8 }),
        shape("text", { class: "kept middle", x, y: y + 4 }, label),
      );
    }
    if (gap) {
      const x = frame.x(Math.min(grid[grid.length - 1], Math.max(grid[0], gap.bid)));
      group.append(shape("line", { class: "gap", x1: x, x2: x, y1: frame.y(gap.low), y2: frame.y(gap.high) }));
    }
    nameLines(group, frame, lines.filter((line) => line.label));
  }

  /** Write the names of lines at their ends. */
  function nameLines(group, frame, named) {
    const ends = named.map(({ values }) => frame.y(values[values.length - 1]));
    const heights = apart(ends, 14, frame.top, frame.bottom);
    named.forEach(({ kind, label }, i) => {
      group.append(shape("text", { class: `name ${kind}`, x: frame.right + 6, y: heights[i] + 4 }, label));
    });
  }

  /** Heights near the given ones at which one-line labels do not overlap, within [top, bottom]. */
  function apart(heights, gap, top, bottom) {
    const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
    const placed = [...heights];
    order.forEach((i, rank) => {
      if (rank > 0) placed[i] = Math.max(placed[i], placed[order[rank - 1]] + gap);
    });
    for (let rank = order.length - 1; rank >= 0; rank -= 1) {
      const limit = rank === order.length - 1 ? bottom : placed[order[rank + 1]] - gap;
      placed[order[rank]] = Math.max(top, Math.min(placed[order[rank]], limit));
    }
    return placed;
  }

  // --------------------------------------------------------------------- days

  const DAYS_HEIGHT = 210;

  /**
   * A small chart of days: a line with its band, and dots for what was observed.
   *
   * rows are { observed, expected, low, high } of each day, null where not known; a dot outside the
   * band is a diamond. limit is optional: { value, label } of a horizontal line.
   */
  function dayChart(host, settings) {
    const { label, rows, limit = null, fromZero = false } = settings;
    const svg = shape("svg", { class: "chart days", role: "img", "aria-label": label });
    host.replaceChildren(svg);
    const values = rows.flatMap((row) => Object.values(row)).filter((value) => value !== null);
    if (limit) values.push(limit.value);
    const [least, most] = [fromZero ? 0 : Math.min(...values), Math.max(...values)];
    const room = fromZero ? 0 : 0.06 * (most - least || 1);
    // the host may be drawn again with other days
    const draw = (width) => drawDays(svg, width, { ...settings, least, most, room, limit });
    drawToWidth(host, (width) => host.contains(svg) && draw(width));
  }

  function drawDays(svg, width, { days, rows, format, limit, least, most, room }) {
    setSize(svg, width, DAYS_HEIGHT);
    const step = ticksTo(most - least, 4)[1];
    const ticks = [];
    for (let value = Math.ceil(least / step) * step; value <= most * 1.0001; value += step) ticks.push(value);
    const left = 12 + 7 * Math.max(...ticks.map((value) => format(value).length));
    const frame = { left, right: width - 20, top: 16, bottom: DAYS_HEIGHT - 28 };
    const x = scale(0, Math.max(days.length - 1, 1), frame.left + 8, frame.right - 8);
    const y = scale(least - room, most + room, frame.bottom, frame.top);
    const known = rows.flatMap((row, i) => (row.expected === null ? [] : [i]));
    const along = (end, places) => [places.map(x), places.map((i) => y(rows[i][end]))];
    const there = pathThrough(...along("high", known));
    const back = pathThrough(...along("low", [...known].reverse()));
    svg.replaceChildren(
      ...dayAxes(frame, x, y, ticks, days, format),
      shape("path", { class: "band", d: `${there}L${back.slice(1)}Z` }),
      shape("path", { class: "line main", d: pathThrough(...along("expected", known)) }),
      ...rows.flatMap((row, i) => (row.observed === null ? [] : [dayMark(row, x(i), y(row.observed))])),
      ...(limit ? limitLine(frame, y(limit.value), limit.label) : []),
    );
  }

  function dayMark(row, x, y) {
    const isInside = row.expected === null || (row.observed >= row.low && row.observed <= row.high);
    if (isInside) return shape("circle", { class: "filled", cx: x, cy: y, r: 4.5 });
    return shape("path", { class: "outside", d: `M${x} ${y - 6}l6 6l-6 6l-6 -6Z` });
  }

  function limitLine({ left, right }, y, label) {
    return [
      shape("line", { class: "gap", x1: left, x2: right, y1: y, y2: y }),
      shape("text", { class: "mark", x: left + 6, y: y - 5 }, label),
    ];
  }

  function dayAxes({ left, right, bottom }, x, y, ticks, days, format) {
    const shortDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
    const made = ticks.flatMap((value) => [
      shape("line", { class: "rule", x1: left, x2: right, y1: y(value), y2: y(value) }),
      shape("text", { class: "end", x: left - 6, y: y(value) + 4 }, format(value)),
    ]);
    const every = Math.ceil(days.length / Math.max(2, (right - left) / 60));
    days.forEach((day, i) => {
      const then = new Date(day);
      const text = Number.isNaN(then.valueOf()) ? day : shortDay.format(then);
      if (i % every === 0) made.push(shape("text", { class: "middle", x: x(i), y: bottom + 18 }, text));
    });
    return made;
  }

  return Object.freeze({
    ...{ curveChart, dayChart, drawToWidth, nameLines, pathThrough, placeTip, pointedChart, setSize, shape },
  });
})();
