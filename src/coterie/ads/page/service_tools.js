"use strict";
/* Taking a forecast along: a link to it, its table as CSV, its charts as pictures. */
const coterieTools = (() => {
  const { csv, fileName, picture, save } = coterieExports;
  const find = (id) => document.getElementById(id);

  /** settings: panel (of what_if.js), model, address (steps of page_address.js), busy(promise). */
  function tools({ panel, model, address, busy }) {
    const who = () => panel.shown().question.one.id ?? "new-advertiser";

    async function copyLink() {
      address.commit();
      const link = find("link");
      link.value = location.href;
      try {
        await navigator.clipboard.writeText(link.value);
        find("told").textContent = "Copied.";
      } catch {
        // not every browser lets a page write there: then people do
        link.hidden = false;
        link.select();
        find("told").textContent = "Copy it from here:";
      }
    }

    async function savePicture(target) {
      const svg = document.querySelector(`#${target}-chart svg`);
      const { question, reply } = panel.shown();
      if (!reply) return;
      const title = `${target === "spend" ? "Spend" : "Impressions"} a day by bid`;
      const bid = coterieNumbers.money(question.bid, model.symbol);
      const below = `${question.one.id ?? "a new advertiser"}, at a bid of ${bid}`;
      save(await picture(svg, title, below), fileName(`${target}-${who()}`, "png"));
    }

    find("copy-link").addEventListener("click", copyLink);
    find("save-csv").addEventListener("click", () => {
      if (!panel.shown().reply) return;
      const table = new Blob([csv(rowsOf(panel.shown()))], { type: "text/csv" });
      save(table, fileName(`forecast-${who()}`, "csv"));
    });
    for (const button of document.querySelectorAll("[data-picture]")) {
      button.addEventListener("click", () => busy(savePicture(button.dataset.picture)));
    }
  }

  /** The table shown, with all digits. */
  function rowsOf({ question, reply, rows }) {
    return rows.map((at) => ({
      advertiser: question.one.id ?? "",
      text: question.one.text ?? "",
      segment: reply.segment,
      curve: reply.curve,
      day: question.day.date ?? "",
      supply: at.supply,
      bid: at.bid,
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
      model: reply.model.version,
    }));
  }

  return tools;
})();
