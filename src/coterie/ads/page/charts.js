"use strict";
/* SVG charts for any page: they use only their arguments and set all text as text. */
const coterieCharts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const { interpolate, percent } = coterieNumbers;

  // ------------------------------------------------------------------- scales

  /** A map from data to pixels, linear or logarithmic, with its inverse. */
  function scale(from, to, start, end, logarithmic = false) {
    const bend = logarithmic ? Math.log : (value) => value;
    const unbend = logarithmic ? Math.exp : (value) => value;
    const span = bend(to) - bend(from) || 1;
    const place = (value) => start + ((bend(value) - bend(from)) / span) * (end - start);
    place.invert = (pixel) => {
      const share = Math.min(1, Math.max(0, (pixel - start) / (end - start)));
      return unbend(bend(from) + share * span);
    };
    return place;
  }

  /** The scale of the bids: logarithmic if they span more than a factor of 20. */
  function wantsLogarithm(grid) {
    return grid[0] > 0 && grid[grid.length - 1] / grid[0] > 20;
  }

  function bidScale(grid, start, end) {
    return scale(grid[0], grid[grid.length - 1], start, end, wantsLogarithm(grid));
  }

  /** Round a bid to the power of ten below 1/500 of the axis, the precision of pointing. */
  function roundedBid(bid, grid) {
    const place = bidScale(grid, 0, 500);
    const at = Math.min(place(bid), 499);
    const step = 10 ** Math.floor(Math.log10(place.invert(at + 1) - place.invert(at)));
    return Number((Math.round(bid / step) * step).toPrecision(12));
  }

  /** The next bid in a direction (1 or -1): 1/100 of the axis away, beyond the axis 1/100 of the bid. */
  function nextBid(bid, grid, direction) {
    const place = bidScale(grid, 0, 100);
    const at = Math.min(99, Math.max(0, place(bid)));
    const beyond = bid > grid[grid.length - 1];
    const step = beyond ? bid / 100 : place.invert(at + 1) - place.invert(at);
    const round = 10 ** Math.floor(Math.log10(step));
    const next = Number((Math.round((bid + direction * step) / round) * round).toPrecision(12));
    return next > 0 ? next : bid;
  }

  /** The smallest step of 1, 2 or 5 times a power of ten with at most the given number in a span. */
  function roundStep(span, most) {
    const least = (span / most) * 0.999;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].find((factor) => factor * power >= least) * power;
  }

  function multiples(step, first, last) {
    const values = [];
    for (let i = first; i <= last; i += 1) values.push(Number((i * step).toPrecision(12)));
    return values;
  }

  /** Round values from 0 to top or the next one above it. */
  function ticksTo(top, most) {
    if (!(top > 0)) return [0, 1];
    const step = roundStep(top, most);
    return multiples(step, 0, Math.ceil((top / step) * 0.999));
  }

  /** Round values in [low, high] for a logarithmic axis: 1, 2, 5 of each decade, or fewer. */
  function logTicks(low, high, most) {
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const values = [];
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
        for (const factor of factors) {
          const value = Number((factor * 10 ** power).toPrecision(12));
          if (value >= low && value <= high) values.push(value);
        }
      }
      if (values.length <= most || factors.length === 1) return values;
    }
    return [];
  }

  function bidTicks(grid, most) {
    const [low, high] = [grid[0], grid[grid.length - 1]];
    if (wantsLogarithm(grid)) return logTicks(low, high, most);
    const step = roundStep(high - low, most);
    return multiples(step, Math.ceil(low / step), Math.floor(high / step));
  }

  // ------------------------------------------------------------------ drawing

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
   * show({ lines, band, marks, top }): lines are { values, kind, label, bids }, kind one of
   *   "main", "own", "segment", "context", bids those of the values (by default the grid);
   *   band is { low, high, bids }; marks are { bid, label }.
   * point(bid, text): put the pointer at a bid; text tells a screen reader what it reads.
   */
  function curveChart(host, settings) {
    const svg = shape("svg", { class: "chart", role: "slider", tabindex: "0" });
    const [axes, plot, pointer] = ["axes", "plot", "pointer"].map((name) => shape("g", { class: name }));
    svg.append(axes, plot, pointer);
    host.replaceChildren(svg);
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
      frame = layOut(width);
      setSize(svg, width, settings.height);
      drawAxes(axes, frame, settings);
      drawCurves(plot, frame, shown, grid);
      drawPointer();
    }

    function layOut(width) {
      const ticks = ticksTo(shown.top, settings.ticks);
      const lengths = ticks.map((value) => settings.formatTick(value).length);
      const left = 10 + 7 * Math.max(settings.leastTickLength ?? 0, ...lengths);
      const named = shown.lines.filter((line) => line.label);
      const right = named.length
        ? 12 + 7.6 * Math.max(...named.map((line) => line.label.length))
        : // half of the last bid's label is beyond its tick
          Math.max(8, 3 + 3.4 * Math.max(...bidTicks(grid, 9).map((bid) => settings.formatBid(bid).length)));
      const box = {
        width,
        left,
        right: width - right,
        top: shown.marks.length ? 20 : 8,
        bottom: settings.height - (settings.bidTitle ? 38 : 20),
      };
      return {
        ...box,
        ticks,
        x: bidScale(grid, box.left, box.right),
        y: scale(0, ticks[ticks.length - 1], box.bottom, box.top),
      };
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
      }
    }

    function bidAt(event) {
      const box = svg.getBoundingClientRect();
      return frame.x.invert(((event.clientX - box.left) / box.width) * frame.width);
    }

    svg.addEventListener("pointerdown", (event) => {
      if (!frame) return;
      if (settings.onPick) {
        svg.setPointerCapture(event.pointerId);
        settings.onPick(bidAt(event));
      } else settings.onHover(bidAt(event));
    });
    svg.addEventListener("pointermove", (event) => {
      if (!frame) return;
      if (event.buttons && settings.onPick) settings.onPick(bidAt(event));
      else settings.onHover(bidAt(event));
    });
    svg.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") settings.onHover(null);
    });
    svg.addEventListener("keydown", (event) => {
      const bid = bidByKey(event.key, pointed ?? ends[0], grid);
      if (bid === null) return;
      event.preventDefault();
      (settings.onPick ?? settings.onHover)(bid);
    });
    drawToWidth(host, redraw);

    return {
      show(next) {
        shown = next;
        redraw(Math.floor(host.clientWidth) || 600);
      },
      point(bid, text) {
        pointed = bid;
        svg.setAttribute("aria-valuenow", Number(bid.toPrecision(4)));
        svg.setAttribute("aria-valuetext", text);
        drawPointer();
      },
    };
  }

  /** The bid after an arrow key: 1/50 of the axis away, or an end of it; null for other keys. */
  function bidByKey(key, bid, grid) {
    const ends = [grid[0], grid[grid.length - 1]];
    const steps = bidScale(grid, 0, 50);
    const moves = {
      ArrowRight: 1,
      ArrowUp: 1,
      ArrowLeft: -1,
      ArrowDown: -1,
      PageUp: 5,
      PageDown: -5,
    };
    if (key === "Home") return ends[0];
    if (key === "End") return ends[1];
    return key in moves ? steps.invert(steps(bid) + moves[key]) : null;
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

  function drawCurves(group, frame, { lines, band, marks }, grid) {
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
    const named = lines.filter((line) => line.label);
    const heights = apart(
      named.map(({ values }) => frame.y(values[values.length - 1])),
      14,
      frame.top,
      frame.bottom,
    );
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

  /**
   * Two values a row as dots on a common axis from 0, joined by a line.
   * rows: { label, values: [hollow, filled], best }; values are shares of 1, or null.
   */
  function dotPlot(host, { rows, label, format }) {
    const svg = shape("svg", { class: "chart dots", role: "img", "aria-label": label });
    host.replaceChildren(svg);
    const top = Math.max(...rows.flatMap((row) => row.values.map((value) => value ?? 0)));
    const labelWidth = 14 + 6.6 * Math.max(...rows.map((row) => row.label.length));

    drawToWidth(host, (width) => {
      // labels go above the dots if there is too little room beside them
      const above = labelWidth > 0.35 * width;
      const left = above ? 14 : labelWidth;
      const rowHeight = above ? 42 : 28;
      const bottom = rows.length * rowHeight + 4;
      const ticks = ticksTo(top * 1.02, Math.max(2, (width - left) / 70));
      const x = scale(0, ticks[ticks.length - 1], left, width - 46);
      svg.replaceChildren();
      setSize(svg, width, bottom + 22);
      for (const value of ticks) {
        const kind = value === 0 ? "base" : "rule";
        svg.append(
          shape("line", { class: kind, x1: x(value), x2: x(value), y1: 0, y2: bottom }),
          shape("text", { class: "middle", x: x(value), y: bottom + 16 }, format(value)),
        );
      }
      rows.forEach((row, i) => {
        const y = (i + (above ? 0.7 : 0.5)) * rowHeight;
        const place = above
          ? { class: "label", x: 0, y: y - 13 }
          : { class: "label end", x: left - 10, y: y + 4 };
        if (row.best) place.class += " best";
        svg.append(shape("text", place, row.label));
        drawDots(svg, row.values, x, y);
      });
    });
  }

  function drawDots(svg, values, x, y) {
    const known = values.filter((value) => value !== null);
    if (!known.length) return;
    const ends = { x1: x(Math.min(...known)), x2: x(Math.max(...known)), y1: y, y2: y };
    svg.append(shape("line", { class: "between", ...ends }));
    ["hollow", "filled"].forEach((kind, i) => {
      if (values[i] !== null) svg.append(shape("circle", { class: kind, cx: x(values[i]), cy: y, r: 5 }));
    });
    // the number is beside the filled dot, away from the other dot
    const value = values[1] ?? values[0];
    const side =
      value >= Math.max(...known)
        ? { class: "value", x: x(value) + 10 }
        : { class: "value end", x: x(value) - 10 };
    svg.append(shape("text", { ...side, y: y + 4 }, percent(value)));
  }

  return Object.freeze({ bidScale, bidTicks, curveChart, dotPlot, nextBid, roundedBid, shape });
})();
