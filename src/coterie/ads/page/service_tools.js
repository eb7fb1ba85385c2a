"use strict";
/* Sharing a forecast: a link to it, its table as CSV, its charts as pictures. */
const coterieTools = (() => {
  const { csv, fileName, picture, save } = coterieExports;
  const find = (id) => document.getElementById(id);

  /** settings: panel (of what_if.js), model, period (its days), address (page_address.js), busy. */
  function tools({ panel, model, period, address, busy }) {
    const who = () => panel.shown().question.one.id ?? "new-advertiser";

    async function copyLink() {
      address.commit();
      const link = find("link");
      link.value = location.href;
      try {
        await navigator.clipboard.writeText(link.value);
        find("told").textContent = "Copied.";
      } catch {
        // some browsers forbid writing to the clipboard; the user copies the link then
        link.hidden = false;
        link.select();
        find("told").textContent = "Copy it from here:";
      }
    }

    async function savePicture(target) {
      const svg = document.querySelector(`#${target}-chart svg`);
      const { question, reply, when } = panel.shown();
      if (!reply) return;
      const bid = coterieNumbers.money(question.bid, model.symbol);
      const supply = coterieNumbers.tally(reply.supply);
      // long texts come last, because a line is cut at the edge of the picture
      const lines = [
        `${target === "spend" ? "Spend" : "Impressions"} a day by bid`,
        `Bid ${bid}: ${question.one.id ?? "a new advertiser"}`,
        `${supply} auctions ${when}`,
        `Log of ${period}`,
      ];
      save(await picture(svg, lines), fileName(`${target}-${who()}`, "png"));
    }

    find("copy-link").addEventListener("click", copyLink);
    find("save-csv").addEventListener("click", () => {
      if (!panel.shown().reply) return;
      const table = new Blob([csv(rowsOf(panel.shown(), model))], { type: "text/csv" });
      save(table, fileName(`forecast-${who()}`, "csv"));
    });
    for (const button of document.querySelectorAll("[data-picture]")) {
      button.addEventListener("click", () => busy(savePicture(button.dataset.picture)));
    }
  }

  /** All plotted values with all digits: the columns of the command line, then the others. */
  function rowsOf({ question, reply }, { currency }) {
    const rows = [...reply.forecasts].sort((a, b) => a.bid - b.bid);
    return rows.map((at) => ({
      advertiser: reply.advertiser ?? question.one.id ?? "",
      bid: at.bid,
      supply: at.supply,
      win_rate: at.win.value,
      cost: at.cost,
      impressions: at.impressions.value,
      impressions_low: at.impressions.low,
      impressions_high: at.impressions.high,
      spend: at.spend.value,
      spend_low: at.spend.low,
      spend_high: at.spend.high,
      clicks: at.clicks?.value,
      clicks_low: at.clicks?.low,
      clicks_high: at.clicks?.high,
      conversions: at.conversions?.value,
      conversions_low: at.conversions?.low,
      conversions_high: at.conversions?.high,
      level: reply.level,
      segment: reply.segment,
      curve: reply.curve,
      why: at.why,
      currency: reply.currency ?? currency,
      text: question.one.text ?? "",
      day: question.day.date ?? "",
      model: reply.model.version,
    }));
  }

  return tools;
})();
