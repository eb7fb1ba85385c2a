"use strict";
/*
 * A chart of forecasts against what happened: a point for each advertiser, on logarithmic axes.
 *
 * coterieScatter(host, { label, points, format, formatTick, onPick }) draws it; points are
 * { id, forecast, low, high, actual }, format writes a value, onPick(id) is called for a point that
 * is pressed. A point outside its interval is a diamond. The interval and the figures of a point are
 * shown while it is pointed at, or chosen with the arrow keys in order of the forecast.
 *
 * Values below a round one under the smallest actual one, and 0, have no place on the axes: they are
 * at their edge.
 */
const coterieScatter = (() => {
  const { drawToWidth, placeTip, setSize, shape } = coterieCharts;
  const { logTicks, scale } = coterieScales;
  const { element, idText, strong } = coterieNodes;
  const REACH = 24; // pixels from the pointer to the point that it reads
  const [TOP, BOTTOM, STRIP, EDGE] = [10, 44, 36, 8];

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

  function scatter(host, { label, points: given, format, formatTick, onPick }) {
    const points = [...given].sort((a, b) => a.forecast - b.forecast);
    const svg = shape("svg", { class: "chart scatter", role: "slider", tabindex: "0", "aria-label": label });
    const [axes, dots, pointer] = ["axes", "plot", "pointer"].map((name) => shape("g", { class: name }));
    svg.append(axes, dots, pointer);
    const tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    host.replaceChildren(svg, tip);
    host.classList.add("charted");
    svg.setAttribute("aria-valuemin", 1);
    svg.setAttribute("aria-valuemax", points.length);
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
      drawPoints(dots, points, frame);
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

  return Object.freeze({ isOutside, scatter });
})();
