"use strict";
/*
 * A small chart of days: a line with its band, and dots for what was observed.
 *
 * coterieDayChart(host, { label, days, rows, format, limit, fromZero }) draws it. rows are
 * { observed, expected, low, high } of each day, null where not known; a dot outside the band is a
 * diamond. limit is optional: { value, label } of a horizontal line.
 */
const coterieDayChart = (() => {
  const { drawToWidth, pathThrough, setSize, shape } = coterieCharts;
  const { scale, ticksTo } = coterieScales;
  const HEIGHT = 210;

  function dayChart(host, settings) {
    const { label, rows, limit = null, fromZero = false } = settings;
    const svg = shape("svg", { class: "chart days", role: "img", "aria-label": label });
    host.replaceChildren(svg);
    const values = rows.flatMap((row) => Object.values(row)).filter((value) => value !== null);
    if (limit) values.push(limit.value);
    const [least, most] = [fromZero ? 0 : Math.min(...values), Math.max(...values)];
    const room = fromZero ? 0 : 0.06 * (most - least || 1);
    // the host may be drawn again with other days
    const draw = (width) => drawAll(svg, width, { ...settings, least, most, room, limit });
    drawToWidth(host, (width) => host.contains(svg) && draw(width));
  }

  function drawAll(svg, width, { days, rows, format, limit, least, most, room }) {
    setSize(svg, width, HEIGHT);
    const step = ticksTo(most - least, 4)[1];
    const ticks = [];
    for (let value = Math.ceil(least / step) * step; value <= most * 1.0001; value += step) ticks.push(value);
    const left = 12 + 7 * Math.max(...ticks.map((value) => format(value).length));
    const frame = { left, right: width - 20, top: 16, bottom: HEIGHT - 28 };
    const x = scale(0, Math.max(days.length - 1, 1), frame.left + 8, frame.right - 8);
    const y = scale(least - room, most + room, frame.bottom, frame.top);
    const known = rows.flatMap((row, i) => (row.expected === null ? [] : [i]));
    const along = (end, places) => [places.map(x), places.map((i) => y(rows[i][end]))];
    const there = pathThrough(...along("high", known));
    const back = pathThrough(...along("low", [...known].reverse()));
    svg.replaceChildren(
      ...axes(frame, x, y, ticks, days, format),
      shape("path", { class: "band", d: `${there}L${back.slice(1)}Z` }),
      shape("path", { class: "line main", d: pathThrough(...along("expected", known)) }),
      ...rows.flatMap((row, i) => (row.observed === null ? [] : [mark(row, x(i), y(row.observed))])),
      ...(limit ? limitLine(frame, y(limit.value), limit.label) : []),
    );
  }

  function mark(row, x, y) {
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

  function axes({ left, right, bottom }, x, y, ticks, days, format) {
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

  return dayChart;
})();
