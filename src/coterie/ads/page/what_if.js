"use strict";
/*
 * The panel of what_if.html: choose an advertiser, a bid and a day, read impressions and spend.
 *
 * coterieWhatIf(settings) wires it and gives a function that shows the advertiser of an index.
 * settings: grid (bids), symbol (of the currency), interval (its level, or null) and
 *   ids      of all advertisers, in the order of their indices
 *   order    indices, in the order in which they are offered
 *   about    (index) → a line of text beside an id
 *   load     (index) → { id, curves, own (win rates, or null), source, bid, supply,
 *            supply_by_weekday, click_rate (or null), facts: [[name, text or node], …] }
 */
const coterieWhatIf = (() => {
  const charts = coterieCharts;
  const { count, forecastAt, percent, tick } = coterieNumbers;
  const { element, exact, idText, strong, whole } = coterieNodes;
  const find = (id) => document.getElementById(id);
  const lineName = { pooled: "pooled", segment: "segment", global: "all" };
  const day = { mean: "on an average day", other: "a day" };

  function whatIf({ grid, symbol, interval, ids, order, about, load }) {
    const ends = [grid[0], grid[grid.length - 1]];
    const money = (number) => coterieNumbers.money(number, symbol);
    const words = inWords(money, interval, ends);
    const steps = charts.bidScale(grid, 0, 1000);
    const fields = { slider: find("bid-slider"), day: find("day"), bid: find("bid"), supply: find("supply") };
    const faults = {};
    let one = null;
    let bid = 0;
    let supply = 0;

    const panels = ["impressions", "spend"].map((target) => ({
      target,
      format: target === "spend" ? money : count,
      said: find(`${target}-said`),
      chart: charts.curveChart(find(`${target}-chart`), {
        grid,
        label: `${target === "spend" ? "Spend" : "Impressions"} a day by bid`,
        height: 264,
        ticks: 5,
        bidTitle: `bid, ${symbol.trim() || "currency units"} per thousand impressions (CPM)`,
        formatBid: tick,
        formatTick: (value) => (target === "spend" ? symbol : "") + tick(value),
        onHover: (hovered) => point(hovered ?? bid),
        onPick: (picked) => setBid(charts.roundedBid(picked, grid)),
      }),
    }));

    // ---- answers

    function answer() {
      const now = forecastAt(one.curves, bid, supply);
      const today = forecastAt(one.curves, one.bid, supply);
      words.fillTiles(now, today, one.click_rate);
      const when = day[fields.day.value] ?? `on a ${fields.day.selectedOptions[0].textContent}`;
      find("sentence").replaceChildren(...words.sentence(one.id, now, today, when));
      const others = charts.bidTicks(grid, 14).filter((at) => at !== bid && at !== one.bid);
      const bids = [...others, ...new Set([bid, one.bid])].sort((a, b) => a - b);
      const rows = bids.map((at) => forecastAt(one.curves, at, supply));
      find("bid-table").replaceChildren(...rows.map((at) => words.row(at, now, today)));
      drawCurves();
      point(bid);
    }

    function drawCurves() {
      const marks = [{ bid: one.bid, label: `today ${money(one.bid)}` }];
      for (const { target, chart } of panels) {
        const along = (curves, end) => grid.map((at) => forecastAt(curves, at, supply)[target][end]);
        const band = { low: along(one.curves, "low"), high: along(one.curves, "high") };
        const lines = [{ kind: "main", values: along(one.curves, "value"), label: lineName[one.source] }];
        if (one.own) {
          const values = along({ ...one.curves, win: one.own }, "value");
          lines.unshift({ kind: "own", values, label: "own" });
        }
        const top = Math.max(...band.high, ...lines.flatMap((line) => line.values));
        chart.show({ lines, band, marks, top });
      }
    }

    function point(at) {
      const there = forecastAt(one.curves, at, supply);
      for (const { target, chart, said, format } of panels) {
        const text = `${money(at)} → ${format(there[target].value)} (${range(there[target], format)})`;
        said.textContent = text;
        chart.point(at, text);
      }
    }

    // ---- questions

    function choose(index) {
      one = load(index);
      find("facts").replaceChildren(
        ...one.facts.map(([name, value]) =>
          element("div", {}, element("dt", {}, name), element("dd", {}, value)),
        ),
      );
      fields.day.value = "mean";
      takeSupply(one.supply);
      setBid(one.bid);
    }

    function setBid(value) {
      fields.bid.value = Number(value.toPrecision(4));
      takeBid(value);
      answer();
    }

    function takeBid(value) {
      bid = value;
      say("bid", "");
      fields.slider.value = steps(Math.min(ends[1], Math.max(ends[0], value)));
      fields.slider.setAttribute("aria-valuetext", money(value));
    }

    function takeSupply(value) {
      supply = value;
      say("supply", "");
      fields.supply.value = Number(value.toPrecision(4));
    }

    function say(name, fault) {
      faults[name] = fault;
      fields[name].setAttribute("aria-invalid", String(fault !== ""));
      find("fault").textContent = Object.values(faults).filter(Boolean).join(" ");
    }

    /** The number in a field, or null after saying what is wrong with it. */
    function entered(name, meaning) {
      const text = fields[name].value.trim();
      const value = text === "" ? NaN : Number(text);
      if (Number.isFinite(value) && value >= 0) return value;
      say(name, `${meaning} must be a number, 0 or more; the figures are for the last good one.`);
      return null;
    }

    fields.slider.addEventListener("input", () => {
      setBid(charts.roundedBid(steps.invert(Number(fields.slider.value)), grid));
    });
    fields.bid.addEventListener("input", () => {
      const value = entered("bid", "The bid");
      if (value === null) return;
      takeBid(value);
      answer();
    });
    fields.supply.addEventListener("input", () => {
      const value = entered("supply", "The number of auctions");
      if (value === null) return;
      supply = value;
      say("supply", "");
      fields.day.value = "other";
      answer();
    });
    fields.day.addEventListener("change", () => {
      const { value } = fields.day;
      if (value === "other") fields.supply.focus();
      else takeSupply(value === "mean" ? one.supply : one.supply_by_weekday[Number(value)]);
      answer();
    });

    const box = coterieCombobox.combobox(find("advertiser"), find("advertisers-found"), {
      items: order.map((index) => ({ index, name: ids[index], key: ids[index].toLowerCase() })),
      nothing: "No advertiser has that in its id",
      describe: ({ index, name }) => [idText(name), element("small", {}, about(index))],
      onChoose: ({ index }) => choose(index),
    });
    find("advertiser-count").textContent = ids.length.toLocaleString("en");

    return (index) => {
      box.show(ids[index]);
      choose(index);
    };
  }

  function range({ low, high }, format) {
    return `${format(low)}–${format(high)}`;
  }

  /** Forecasts as tiles, rows of a table and sentences. */
  function inWords(money, level, ends) {
    const intervalName = level ? `${Math.round(100 * level)}% interval ` : "interval ";

    function tile(name, value, format, ...small) {
      find(`${name}-value`).replaceChildren(exact(value, format(value)));
      find(`${name}-small`).replaceChildren(...small);
    }

    function tileWithInterval(name, interval, format) {
      tile(name, interval.value, format, intervalName, whole(range(interval, format)));
    }

    function fillTiles(now, today, clickRate) {
      tileWithInterval("impressions", now.impressions, count);
      tileWithInterval("spend", now.spend, money);
      tileWithInterval("win", now.win, percent);
      tile("cost", now.cost, money, `${money(today.cost)} at today’s bid`);
      find("clicks").hidden = clickRate === null;
      if (clickRate === null) return;
      const clicks = now.impressions.value * clickRate;
      const price = clicks > 0 ? `${money(now.spend.value / clicks)} a click` : "none expected";
      tile("clicks", clicks, count, price);
    }

    function sentence(id, now, today, when) {
      const rate = `${percent(now.win.value)} of its ${count(now.supply)} auctions`;
      const said = ["At a bid of ", strong(money(now.bid)), " ", idText(id), ` wins about ${rate} ${when}: `];
      said.push(strong(`${count(now.impressions.value)} impressions`), " (");
      said.push(whole(range(now.impressions, count)), ") for ", strong(money(now.spend.value)), " (");
      said.push(whole(range(now.spend, money)), `), or ${money(now.cost)} per thousand. `);
      said.push(compared(now, today));
      if (now.outside) {
        const seen = `${money(ends[0])} to ${money(ends[1])}`;
        const warning = ` This is outside the bids seen (${seen}): the forecast stays as at the nearest of them.`;
        said.push(element("em", {}, warning));
      }
      return said;
    }

    function compared(now, today) {
      const more = now.impressions.value - today.impressions.value;
      const paid = now.spend.value - today.spend.value;
      if (now.bid === today.bid) return "This is today’s mean bid.";
      if (Math.abs(more) <= 0.005 * now.impressions.value) {
        return `Today’s mean bid of ${money(today.bid)} wins as much.`;
      }
      return (
        `Compared with today’s mean bid of ${money(today.bid)}, ` +
        `the ${count(Math.abs(more))} ${more > 0 ? "more" : "fewer"} impressions ` +
        `${more > 0 ? "cost" : "save"} ${money(Math.abs(paid))} a day, ` +
        `${money(1000 * Math.abs(paid / more))} per thousand of them.`
      );
    }

    function row(at, now, today) {
      const name = at.bid === now.bid ? "chosen" : at.bid === today.bid ? "today" : "";
      return element(
        "tr",
        { class: name },
        element("th", { scope: "row" }, money(at.bid), " ", element("small", {}, name)),
        element("td", {}, percent(at.win.value)),
        element("td", {}, count(at.impressions.value)),
        element("td", { class: "soft" }, range(at.impressions, count)),
        element("td", {}, money(at.spend.value)),
        element("td", { class: "soft" }, range(at.spend, money)),
        element("td", {}, money(at.cost)),
      );
    }

    return { fillTiles, row, sentence };
  }

  return whatIf;
})();
