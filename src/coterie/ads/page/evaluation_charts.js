"use strict";
/*
 * The charts of an evaluation in the report: errors by source, forecasts against what happened,
 * coverage of intervals, and levels of the days.
 *
 * coterieEvaluationCharts({ data, money, symbol, onPick }) draws those that data has; onPick(id) is
 * called for an advertiser that is chosen.
 */
const coterieEvaluationCharts = (() => {
  const { drawToWidth, nameLines, pathThrough, placeTip, pointedChart, setSize, shape } = coterieCharts;
  const { logTicks, scale, ticksTo } = coterieScales;
  const { count, percent, percentTick, signed, span, tick } = coterieNumbers;
  const { element, exact, find, idText, strong } = coterieNodes;
  const TARGETS = ["impressions", "spend"];
  const PAGE = 15;
  const REACH = 24; // pixels from the pointer to the point that it reads
  const [TOP, BOTTOM, STRIP, EDGE] = [10, 44, 36, 8];

  function evaluationCharts({ data, money, symbol, onPick }) {
    if (data.errors?.length) errorCharts(data.errors);
    if (data.points?.advertisers.length) {
      const shown = new Set(data.advertisers.id);
      forecastCharts(data.points, { money, symbol, onPick, shown });
    }
    if (data.coverage?.rows.length) coverageCharts(data.coverage);
    if (data.days.length > 1) dayCharts(data.days);
  }

  function errorCharts(errors) {
    for (const target of TARGETS) {
      dotPlot(find(`${target}-errors`), {
        label: `Error of the ${target} forecast by source of the curve`,
        format: percentTick,
        rows: errors.map(({ label, chosen, ...values }) => ({ label, values: values[target], best: chosen })),
      });
    }
  }

  /** Levels of the days, over the band of what was expected from the days before. */
  function dayCharts(days) {
    for (const [name, words] of [["price", "Price level"], ["supply", "Auctions"]]) {
      coterieCharts.dayChart(find(`${name}-days`), {
        label: `${words} by day, observed and expected`,
        days: days.map(({ day }) => day),
        rows: days.map((row) => row[name]),
        format: (value) => `${Number((100 * value).toFixed(1))}%`,
      });
    }
  }

  // ------------------------------------------------- forecasts and what happened

  function forecastCharts(given, { money, symbol, onPick, shown }) {
    const formats = { impressions: count, spend: money };
    const points = given.advertisers.map((id, i) => {
      const at = (target) => Object.fromEntries(Object.entries(given[target]).map(([end, all]) => [end, all[i]]));
      return { id, ...Object.fromEntries(TARGETS.map((target) => [target, at(target)])) };
    });
    for (const target of TARGETS) {
      scatter(find(`${target}-points`), {
        label: `Forecast and actual ${target} by advertiser; arrow keys step through the advertisers`,
        points: points.map((point) => ({ id: point.id, ...point[target] })),
        format: formats[target],
        formatTick: (value) => (target === "spend" ? symbol : "") + tick(value),
        onPick,
      });
    }
    // an advertiser that the report leaves out cannot be picked
    forecastList(points, formats, (id) => (shown.has(id) ? link(id, onPick) : idText(id)));
  }

  /** The same as a table, the largest misses of impressions first. */
  function forecastList(points, formats, named) {
    const columns = [{ title: "Advertiser", text: true, key: ({ id }) => id, cell: ({ id }) => named(id) }];
    for (const target of TARGETS) {
      const format = formats[target];
      const gap = (point) => point[target].forecast - point[target].actual;
      const number = (end) => ({
        title: `${target}, ${end}`,
        key: (point) => point[target][end],
        cell: (point) => exact(point[target][end], format(point[target][end])),
      });
      const missed = {
        title: "missed by",
        key: (point) => Math.abs(gap(point)),
        cell: (point) => missedBy(point[target], format),
      };
      const interval = {
        title: "interval",
        key: (point) => point[target].high,
        cell: (point) => span(point[target], format),
      };
      columns.push(number("forecast"), interval, number("actual"), missed);
    }
    coterieTables.paged(find("point-list"), {
      ...{ name: "Forecast and actual", label: "Filter by id", columns, groups: [] },
      ...{ pageSize: PAGE, column: 4, rising: false },
      load: coterieTables.loadFrom(points, { idOf: ({ id }) => id, pageSize: PAGE }),
    });
  }

  function link(id, onPick) {
    const made = element("a", { href: "#what-if" }, idText(id));
    made.addEventListener("click", () => onPick(id));
    return made;
  }

  function missedBy(figure, format) {
    const gap = figure.forecast - figure.actual;
    const share = figure.actual > 0 ? ` (${signed(gap / figure.actual)})` : "";
    const text = `${gap < 0 ? "−" : "+"}${format(Math.abs(gap))}${share}`;
    return element("span", isOutside(figure) ? { class: "beyond" } : {}, text);
  }

  function isOutside({ actual, low, high }) {
    return actual < low || actual > high;
  }

  /** The smallest and the largest value of the axes, the same for both. */
  function rangeOf(points) {
    const known = points.map(({ actual }) => actual).filter((value) => value > 0);
    if (!known.length) return [1, 10];
    const smallest = Math.min(...known) * 1.0001;
    const power = 10 ** Math.floor(Math.log10(smallest));
    const least = Number((power * [5, 2, 1].find((factor) => factor * power <= smallest)).toPrecision(1));
    const most = Math.max(...known, ...points.map(({ forecast }) => forecast));
    return [least, Math.max(most, least * 10) * 1.1];
  }

  function layOut(width, [least, most], formatTick) {
    const ticks = logTicks(least, most, Math.max(3, width / 90));
    const left = 14 + 7 * Math.max(1 + formatTick(least).length, ...ticks.map((value) => formatTick(value).length));
    const height = Math.round(Math.min(width, 420) * 0.86);
    const [right, bottom] = [width - 14, height - BOTTOM];
    const x = scale(least, most, left + STRIP, right, true);
    const y = scale(least, most, bottom - STRIP, TOP, true);
    // below the axes there is one place for all
    const across = (value) => (value < least ? left + EDGE : x(value));
    const up = (value) => (value < least ? bottom - EDGE : y(value));
    return { width, height, left, right, bottom, ticks, least, most, across, up };
  }

  function drawAxes(group, frame, formatTick) {
    const { left, right, bottom, ticks, least, most, across, up } = frame;
    group.replaceChildren();
    const below = `<${formatTick(least)}`;
    const places = [[least / 2, below], ...ticks.map((value) => [value, formatTick(value)])];
    let last = -Infinity;
    for (const [value, text] of places) {
      const [x, y] = [across(value), up(value)];
      group.append(shape("line", { class: "rule", x1: left, x2: right, y1: y, y2: y }));
      group.append(shape("line", { class: "rule", x1: x, x2: x, y1: TOP, y2: bottom }));
      group.append(shape("text", { class: "end", x: left - 6, y: y + 4 }, text));
      if (x - last < 7.5 * text.length) continue;
      last = x;
      group.append(shape("text", { class: "middle", x, y: bottom + 16 }, text));
    }
    const ends = { x1: across(least), y1: up(least), x2: across(most), y2: up(most) };
    group.append(shape("line", { class: "equal", ...ends }));
    group.append(shape("text", { class: "end title", x: right, y: bottom + 34 }, "forecast →"));
    group.append(shape("text", { class: "title", x: left + 6, y: TOP + 12 }, "↑ actual"));
  }

  function drawPoints(group, points, { across, up }) {
    const made = points.map((point) => {
      const [x, y] = [across(point.forecast), up(point.actual)];
      if (!isOutside(point)) return shape("circle", { class: "inside", cx: x, cy: y, r: 3.2 });
      const d = `M${x.toFixed(1)} ${(y - 5.5).toFixed(1)}l5.5 5.5l-5.5 5.5l-5.5 -5.5Z`;
      return shape("path", { class: "outside", d });
    });
    // diamonds are above circles
    const of = (tag) => made.filter((one) => one.tagName === tag);
    group.replaceChildren(...of("circle"), ...of("path"));
  }

  function drawPointer(group, point, { across, up }) {
    const [x, y] = [across(point.forecast), up(point.actual)];
    const [low, high] = [up(point.low), up(point.high)];
    group.replaceChildren(
      shape("line", { x1: x, x2: x, y1: low, y2: high }),
      ...[low, high].map((end) => shape("line", { x1: x - 5, x2: x + 5, y1: end, y2: end })),
      shape("circle", { cx: x, cy: y, r: 5 }),
    );
    return [x, y];
  }

  /**
   * Forecasts against what happened: a point for each advertiser, on logarithmic axes.
   *
   * points are { id, forecast, low, high, actual }, format writes a value, onPick(id) is called for a
   * point that is pressed. A point outside its interval is a diamond. The interval and the figures of a
   * point are shown while it is pointed at, or chosen with the arrow keys in order of the forecast.
   *
   * Values below a round one under the smallest actual one, and 0, have no place on the axes: they are
   * at their edge.
   */
  function scatter(host, { label, points: given, format, formatTick, onPick }) {
    const points = [...given].sort((a, b) => a.forecast - b.forecast);
    const { svg, axes, plot, pointer, tip } = pointedChart(host, "chart scatter", label, [1, points.length]);
    let frame = null;
    let at = -1;
    choose(0, false);

    function words(point) {
      const interval = coterieNumbers.span(point, format);
      return [`forecast ${format(point.forecast)} (${interval})`, `actual ${format(point.actual)}`];
    }

    function choose(next, isPointing = true) {
      at = next;
      const point = points[at];
      const outside = isOutside(point) ? ["outside the interval"] : [];
      svg.setAttribute("aria-valuenow", at + 1);
      svg.setAttribute("aria-valuetext", [point.id, ...words(point), ...outside].join(", "));
      tip.hidden = !isPointing;
      if (!isPointing) return pointer.replaceChildren();
      const lines = [idText(point.id), ...words(point), ...outside.map(strong)];
      tip.replaceChildren(...lines.map((line) => element("div", {}, line)));
      return placeTip(tip, ...drawPointer(pointer, point, frame), frame.width);
    }

    wire(svg, {
      nearest: (event) => nearest(event, svg, points, frame),
      step: (key) => stepped(key, at, points.length),
      choose,
      current: () => at,
      pick: () => onPick(points[at].id),
    });
    drawToWidth(host, (width) => {
      frame = layOut(width, rangeOf(points), formatTick);
      setSize(svg, width, frame.height);
      drawAxes(axes, frame, formatTick);
      drawPoints(plot, points, frame);
      choose(at, false);
    });
  }

  /** The index of the point nearest to the pointer; −1 where none is near. */
  function nearest(event, svg, points, frame) {
    const box = svg.getBoundingClientRect();
    const zoom = frame.width / box.width;
    const [x, y] = [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
    const away = points.map((one) => Math.hypot(frame.across(one.forecast) - x, frame.up(one.actual) - y));
    const least = Math.min(...away);
    return least <= REACH ? away.indexOf(least) : -1;
  }

  function stepped(key, at, length) {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
    if (key === "Home") return 0;
    if (key === "End") return length - 1;
    return key in steps ? Math.min(length - 1, Math.max(0, at + steps[key])) : null;
  }

  function wire(svg, { nearest: near, step, choose, current, pick }) {
    svg.addEventListener("pointermove", (event) => {
      const found = near(event);
      svg.classList.toggle("near", found >= 0);
      if (found >= 0) choose(found);
      else choose(current(), false);
    });
    svg.addEventListener("pointerleave", () => choose(current(), false));
    svg.addEventListener("click", (event) => {
      const found = near(event);
      if (found < 0) return;
      choose(found);
      // a finger first reads a point; its figures are in the tooltip
      if (event.pointerType !== "touch") pick();
    });
    svg.addEventListener("blur", () => choose(current(), false));
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Enter") return pick();
      const next = step(event.key);
      if (next === null) return undefined;
      event.preventDefault();
      return choose(next);
    });
  }

  // ------------------------------------------------------------------ coverage

  /** The share inside against the level stated, a chart for each kind of supply. */
  function coverageCharts({ levels, rows }) {
    const shown = rows.filter(({ target }) => target !== "conversions");
    const kinds = ["main", "segment", "own"];
    for (const mode of ["given", "forecast"]) {
      const host = find(`${mode}-coverage`);
      const label = `Share inside the interval by its level, number of auctions ${mode}`;
      const svg = shape("svg", { class: "chart dots", role: "img", "aria-label": label });
      host.replaceChildren(svg);
      const least = Math.min(...levels, ...shown.flatMap((row) => row[mode].filter((share) => share !== null)));
      const from = Math.floor(Math.max(0, least - 0.02) * 10) / 10;
      drawToWidth(host, (width) => {
        const height = 230;
        setSize(svg, width, height);
        const frame = { left: 48, right: width - 92, top: 8, bottom: height - 38 };
        const x = scale(from, 1, frame.left, frame.right);
        frame.y = scale(from, 1, frame.bottom, frame.top);
        svg.replaceChildren(...squareAxes(frame, x, from, levels));
        const lines = shown.map((row, i) => ({
          ...{ kind: kinds[i], label: row.target },
          known: levels.map((level, j) => [level, row[mode][j]]).filter(([, share]) => share !== null),
        }));
        const at = ([level, share]) => [x(level), frame.y(share)];
        for (const { kind, known } of lines) drawCoverage(svg, kind, known.map(at));
        nameLines(svg, frame, lines.flatMap(({ known, ...line }) => named(line, known)));
      });
    }
  }

  function drawCoverage(svg, kind, places) {
    if (!places.length) return;
    const d = pathThrough(...[0, 1].map((axis) => places.map((one) => one[axis])));
    svg.append(shape("path", { class: `line ${kind}`, d }));
    for (const [cx, cy] of places) svg.append(shape("circle", { class: `of-${kind}`, cx, cy, r: 3.5 }));
  }

  /** A line to be named at its end, if it has one. */
  function named(line, known) {
    return known.length ? [{ ...line, values: known.map(([, share]) => share) }] : [];
  }

  function squareAxes({ left, right, top, bottom, y }, x, from, levels) {
    const made = [shape("line", { class: "equal", x1: x(from), x2: x(1), y1: y(from), y2: y(1) })];
    for (const level of levels) {
      made.push(
        shape("line", { class: "rule", x1: left, x2: right, y1: y(level), y2: y(level) }),
        shape("line", { class: "rule", x1: x(level), x2: x(level), y1: top, y2: bottom }),
        shape("text", { class: "end", x: left - 6, y: y(level) + 4 }, percentTick(level)),
        shape("text", { class: "middle", x: x(level), y: bottom + 16 }, percentTick(level)),
      );
    }
    return [...made, shape("text", { class: "end title", x: right, y: bottom + 33 }, "stated level")];
  }

  // -------------------------------------------------------------------- errors

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
      // labels go above the dots if there is too little room next to them
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
    // the number is next to the filled dot, away from the other dot
    const value = values[1] ?? values[0];
    const side =
      value >= Math.max(...known)
        ? { class: "value", x: x(value) + 10 }
        : { class: "value end", x: x(value) - 10 };
    svg.append(shape("text", { ...side, y: y + 4 }, percent(value)));
  }

  return evaluationCharts;
})();
