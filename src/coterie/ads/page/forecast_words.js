"use strict";
/*
 * Forecasts as tiles, rows of tables, tooltips and sentences, for the panel of what_if.html.
 *
 * coterieForecastWords(money, level): money writes an amount, level is that of the intervals, or
 * null. Forecasts are compared with that at the log's mean bid, called mean.
 * A forecast is { bid, supply, win, impressions, spend, cost, marginal, clicks, conversions, remark };
 * win, impressions, spend, clicks and conversions are figures { value, low, high }, the last two
 * null where there is none; low and high are undefined where no interval is known. marginal is the
 * cost of the next thousand impressions, null where there are none to win.
 */
const coterieForecastWords = (() => {
  const { count, ends, percent, signed, span } = coterieNumbers;
  const { element, exact, find, idText, strong, whole } = coterieNodes;
  const NO_MORE = "no more to win";

  /** An interval with its exact ends as attributes. */
  function exactSpan(figure, format) {
    const [first, ...others] = ends(figure, format).map(([value, text]) => exact(value, text));
    return first === undefined ? "–" : whole(first, ...others.flatMap((last) => ["–", last]));
  }

  /** The interval as the end of a phrase; nothing where none is known. */
  function bracketed(figure, format) {
    return figure.low === undefined ? [] : [" (", whole(span(figure, format)), ")"];
  }

  /** A change in percent, without decimals from 10 on to save width. */
  function briefly(share) {
    if (Math.abs(share) < 0.0995) return signed(share);
    return `${share < 0 ? "−" : "+"}${Math.round(100 * Math.abs(share)).toLocaleString("en")}%`;
  }

  function valueOf(at, name) {
    return at?.[name]?.value ?? at?.[name] ?? null;
  }

  function forecastWords(money, level) {
    const intervalName = level ? `${Math.round(100 * level)}% interval ` : "interval ";
    const formats = {
      ...{ impressions: count, spend: money, win: percent, cost: money },
      ...{ marginal: money, clicks: count, conversions: count },
    };

    function cell(at, name, ...more) {
      const value = valueOf(at, name);
      if (value === null) return element("td", { class: "soft" }, name === "marginal" ? NO_MORE : "–");
      return element("td", {}, exact(value, formats[name](value)), ...more);
    }

    // ---- tiles

    function fillTiles(now, mean) {
      for (const [name, format] of Object.entries(formats)) {
        const [value, before] = [valueOf(now, name), valueOf(mean, name)];
        // not every log has clicks and conversions
        const place = find(name);
        if (!place) continue;
        place.hidden = value === null && name !== "marginal";
        find(`${name}-value`).replaceChildren(value === null ? "–" : exact(value, format(value)));
        find(`${name}-small`).replaceChildren(...small(name, now, format));
        find(`${name}-change`).replaceChildren(...change(value, before, format));
      }
    }

    function small(name, now, format) {
      const figure = now[name];
      if (name === "cost") return ["eCPM"];
      if (name === "marginal") return [figure === null ? NO_MORE : "for the next thousand"];
      if (figure?.low !== undefined) return [intervalName, exactSpan(figure, format)];
      if (name !== "clicks" || !figure) return [];
      return [figure.value > 0 ? `${money(now.spend.value / figure.value)} a click` : "none expected"];
    }

    /** The change from the figure at the log's mean bid. */
    function change(value, before, format) {
      if (value === null || before === null) return [];
      const relation = value === before ? "same as" : before > 0 ? `${briefly(value / before - 1)} from` : "from";
      return [`${relation} `, whole(exact(before, format(before)))];
    }

    // ---- sentences

    /** What the tiles are about: the chosen bid, or the one that is pointed at. */
    function caption(now, mean, isPointing) {
      const parts = [isPointing ? "Pointing at " : "At a bid of ", strong(money(now.bid))];
      if (mean) parts.push(`, compared with the log’s mean bid of ${money(mean.bid)}`);
      if (now.isRough) parts.push(", read from the curve");
      return parts;
    }

    /** period is { when, per }: "on an average day" and "a day". */
    function sentence(id, now, mean, { when, per }) {
      const rate = `${percent(now.win.value)} of its ${count(now.supply)} auctions`;
      const who = id === null ? "a new advertiser" : idText(id);
      const parts = ["At a bid of ", strong(money(now.bid)), " ", who, ` wins about ${rate} ${when}: `];
      parts.push(strong(`${count(now.impressions.value)} impressions`), ...bracketed(now.impressions, count));
      parts.push(" for ", strong(money(now.spend.value)), ...bracketed(now.spend, money));
      parts.push(`, or ${money(now.cost)} per thousand. `);
      if (mean) parts.push(compared(now, mean, per));
      const isRare = ({ high }) => high > 0 && high < 1;
      if ([now.impressions, now.clicks, now.conversions].some((figure) => figure && isRare(figure))) {
        parts.push(" Where the mean is far below 1, the interval holds only the count 0.");
      }
      if (now.remark) parts.push(element("em", {}, ` ${now.remark}`));
      return parts;
    }

    function compared(now, mean, per) {
      const more = now.impressions.value - mean.impressions.value;
      const paid = now.spend.value - mean.spend.value;
      if (now.bid === mean.bid) return `This is the log’s mean bid.`;
      if (Math.abs(more) <= 0.005 * now.impressions.value) {
        return `The log’s mean bid of ${money(mean.bid)} wins as much.`;
      }
      return (
        `Compared with the log’s mean bid of ${money(mean.bid)}, ` +
        `the ${count(Math.abs(more))} ${more > 0 ? "more" : "fewer"} impressions ` +
        `${more > 0 ? "cost" : "save"} ${money(Math.abs(paid))} ${per}, ` +
        `${money(1000 * Math.abs(paid / more))} per thousand of them.`
      );
    }

    // ---- tables

    function row(at, now, mean) {
      const name = at.bid === now.bid ? "chosen" : at.bid === mean?.bid ? "log’s mean" : "";
      return element(
        "tr",
        { class: at.bid === now.bid ? "chosen" : "" },
        element("th", { scope: "row" }, exact(at.bid, money(at.bid)), " ", element("small", {}, name)),
        cell(at, "win"),
        cell(at, "impressions"),
        element("td", { class: "soft" }, exactSpan(at.impressions, count)),
        cell(at, "spend"),
        element("td", { class: "soft" }, exactSpan(at.spend, money)),
        cell(at, "cost"),
        cell(at, "marginal"),
      );
    }

    /** A row of the comparison; label is the number of the scenario, "" for the chosen bid. */
    function scenario(at, first, label, ...buttons) {
      const against = (name) => {
        const [value, before] = [valueOf(at, name), valueOf(first, name)];
        if (at === first || value === null || !(before > 0)) return [];
        return [" ", element("small", {}, briefly(value / before - 1))];
      };
      const badge = element("span", { class: label ? "badge" : "badge now" }, label || "now");
      const names = ["impressions", "spend", ...(at.clicks === null ? [] : ["clicks"]), "cost", "marginal"];
      return element(
        "tr",
        label ? {} : { class: "chosen" },
        element("th", { scope: "row" }, badge, " ", exact(at.bid, money(at.bid))),
        ...names.map((name) => cell(at, name, ...against(name))),
        element("td", {}, ...buttons),
      );
    }

    // ---- charts

    /** One target of a forecast, in one line. */
    function reading(at, target) {
      const format = formats[target];
      const interval = span(at[target], format);
      return `${money(at.bid)} → ${format(at[target].value)}${interval && ` (${interval})`}`;
    }

    /** The tooltip of a chart. */
    function tip(at, target, chosen) {
      const figure = at[target];
      const lines = [
        strong(money(at.bid)),
        `${formats[target](figure.value)} ${target === "spend" ? "spent" : target}`,
      ];
      if (figure.low !== undefined) lines.push(`${intervalName}${span(figure, formats[target])}`);
      if (at.marginal !== null) lines.push(`next thousand ${money(at.marginal)}`);
      const before = chosen[target].value;
      if (at.bid !== chosen.bid && before > 0) {
        lines.push(`${briefly(figure.value / before - 1)} from ${money(chosen.bid)}`);
      }
      return lines.map((line) => element("div", {}, line));
    }

    return Object.freeze({ caption, fillTiles, reading, row, scenario, sentence, tip });
  }

  return forecastWords;
})();
