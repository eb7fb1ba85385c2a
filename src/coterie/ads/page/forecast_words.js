"use strict";
/*
 * Forecasts as tiles, rows of a table and sentences, for the panel of what_if.html.
 *
 * coterieForecastWords(money, level, usual): money writes an amount, level is that of the intervals,
 * or null, usual is { name, short } of the bid that others are compared with.
 * A forecast is { bid, supply, win, impressions, spend, cost, clicks, conversions, remark };
 * win, impressions, spend, clicks and conversions are figures { value, low, high }, the last two
 * null where there is none; low and high are undefined where no interval is known.
 */
const coterieForecastWords = (() => {
  const { count, percent, signed } = coterieNumbers;
  const { element, exact, idText, strong, whole } = coterieNodes;
  const find = (id) => document.getElementById(id);

  function range({ low, high }, format) {
    return `${format(low)}–${format(high)}`;
  }

  function exactRange({ low, high }, format) {
    return whole(exact(low, format(low)), "–", exact(high, format(high)));
  }

  /** A change in percent, without decimals from 10 on to save width. */
  function briefly(share) {
    if (Math.abs(share) < 0.0995) return signed(share);
    return `${share < 0 ? "−" : "+"}${Math.round(100 * Math.abs(share)).toLocaleString("en")}%`;
  }

  function forecastWords(money, level, usual) {
    const intervalName = level ? `${Math.round(100 * level)}% interval ` : "interval ";

    // ---- tiles

    function within(figure, format) {
      return figure.low === undefined ? [] : [intervalName, exactRange(figure, format)];
    }

    function tile(name, value, format, small, before) {
      find(`${name}-value`).replaceChildren(exact(value, format(value)));
      find(`${name}-small`).replaceChildren(...small);
      find(`${name}-change`)?.replaceChildren(...change(value, before, format));
    }

    /** The figure at the usual bid, and the change from it. */
    function change(value, before, format) {
      if (before === undefined) return [];
      const share = before > 0 ? ` · ${value === before ? "same" : briefly(value / before - 1)}` : "";
      return [`${usual.short} `, whole(exact(before, format(before)), share)];
    }

    function fillTiles(now, today) {
      for (const [name, format] of [
        ["impressions", count],
        ["spend", money],
        ["win", percent],
      ]) {
        tile(name, now[name].value, format, within(now[name], format), today?.[name].value);
      }
      // the line for the change already has this figure
      const instead = find("cost-change") ? "eCPM" : today ? `${money(today.cost)} at today’s bid` : "";
      tile("cost", now.cost, money, [instead], today?.cost);
      for (const name of ["clicks", "conversions"]) fillRare(name, now, today);
    }

    /** Clicks or conversions, which not every log has. */
    function fillRare(name, now, today) {
      const place = find(name);
      if (!place) return;
      place.hidden = now[name] === null;
      if (place.hidden) return;
      const { value, low } = now[name];
      const each = name === "clicks" ? "a click" : "each";
      const price = value > 0 ? `${money(now.spend.value / value)} ${each}` : "none expected";
      const small = low === undefined ? [price] : within(now[name], count);
      tile(name, value, count, small, today?.[name]?.value);
    }

    // ---- sentences

    function sentence(id, now, today, when) {
      const rate = `${percent(now.win.value)} of its ${count(now.supply)} auctions`;
      const who = id === null ? "a new advertiser" : idText(id);
      const said = ["At a bid of ", strong(money(now.bid)), " ", who, ` wins about ${rate} ${when}: `];
      said.push(strong(`${count(now.impressions.value)} impressions`), " (");
      said.push(whole(range(now.impressions, count)), ") for ", strong(money(now.spend.value)), " (");
      said.push(whole(range(now.spend, money)), `), or ${money(now.cost)} per thousand. `);
      if (today) said.push(compared(now, today));
      if (now.remark) said.push(element("em", {}, ` ${now.remark}`));
      return said;
    }

    function compared(now, today) {
      const more = now.impressions.value - today.impressions.value;
      const paid = now.spend.value - today.spend.value;
      if (now.bid === today.bid) return `This is ${usual.name}.`;
      if (Math.abs(more) <= 0.005 * now.impressions.value) {
        const name = usual.name[0].toUpperCase() + usual.name.slice(1);
        return `${name} of ${money(today.bid)} wins as much.`;
      }
      return (
        `Compared with ${usual.name} of ${money(today.bid)}, ` +
        `the ${count(Math.abs(more))} ${more > 0 ? "more" : "fewer"} impressions ` +
        `${more > 0 ? "cost" : "save"} ${money(Math.abs(paid))} a day, ` +
        `${money(1000 * Math.abs(paid / more))} per thousand of them.`
      );
    }

    // ---- table

    function row(at, now, today) {
      const name = at.bid === now.bid ? "chosen" : at.bid === today?.bid ? usual.short : "";
      return element(
        "tr",
        { class: at.bid === now.bid ? "chosen" : "" },
        element("th", { scope: "row" }, exact(at.bid, money(at.bid)), " ", element("small", {}, name)),
        element("td", {}, exact(at.win.value, percent(at.win.value))),
        element("td", {}, exact(at.impressions.value, count(at.impressions.value))),
        element("td", { class: "soft" }, exactRange(at.impressions, count)),
        element("td", {}, exact(at.spend.value, money(at.spend.value))),
        element("td", { class: "soft" }, exactRange(at.spend, money)),
        element("td", {}, exact(at.cost, money(at.cost))),
      );
    }

    /** One target of a forecast, as text beside the title of a chart. */
    function reading(at, target) {
      const format = target === "spend" ? money : count;
      return `${money(at.bid)} → ${format(at[target].value)} (${range(at[target], format)})`;
    }

    return Object.freeze({ fillTiles, reading, row, sentence });
  }

  return forecastWords;
})();
