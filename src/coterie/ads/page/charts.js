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
    const svg = shape("svg", { class: "chart", role: "slider", tabindex: "0" });
    const [axes, plot, pointer] = ["axes", "plot", "pointer"].map((name) => shape("g", { class: name }));
    svg.append(axes, plot, pointer);
    const tip = coterieNodes.element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    host.replaceChildren(svg, tip);
    host.classList.add("charted");
    const { grid } = settings;
    const ends = [grid[0], grid[grid.length - 1]];
    svg.setAttribute("aria-label", settings.label);
    svg.setAttribute("aria-valuemin", ends[0]);
    svg.setAttribute("aria-valuemax", ends[1]);
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

  return Object.freeze({ curveChart, drawToWidth, nameLines, pathThrough, placeTip, setSize, shape });
})();
