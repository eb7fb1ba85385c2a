"use strict";
/*
 * The forms of decisions.html: the bid for a goal, and what a budget buys in some days.
 *
 * coterieDecisions({ answers, money, fields }) wires them; fields is that of what_if_fields.js.
 * answers are those of what_if.js, with
 *   bidFor({ one, day, goal, amount })  { reached, bid, safe_bid, why }, or a promise of it: the least
 *                 bid that is expected to reach an amount of a goal, and the least one whose whole
 *                 interval does, null if none does, undefined if there is no interval
 *   plan({ one, day, budget, days, bid })  optional: a promise of a BudgetPlan of the service; without
 *                 a bid, of the one that uses the budget
 * follow({ one, day, bid, when }) tells them what is asked; other answers are forgotten, but
 * a budget is planned again.
 */
const coterieDecisions = (() => {
  const { count, entered, enteredMoney, percent, span } = coterieNumbers;
  const { element, exact, find, strong, whole } = coterieNodes;
  const REST = 250; // milliseconds without a change before a budget is planned again
  const GOAL = /^(.*?)\s*(?:of\s+)?(impressions?|clicks?|conversions?|spend)?\s*$/iu;
  const WHOLE = /^\d{1,3}(,\d{3})+$/;

  /** A bid with four digits that is not below the one given. */
  function roundedUp(bid) {
    const step = 10 ** (Math.floor(Math.log10(bid)) - 3);
    return Number((Math.ceil((bid / step) * (1 - 1e-9)) * step).toPrecision(4));
  }

  function decisions({ answers, money, fields }) {
    let asked = null; // { one, day, bid, when }
    let planned = null; // { budget, days } that was asked for
    const turns = { goal: 0, budget: 0 };
    let resting = 0;

    function unclear(name, fault) {
      return fault ? `The ${name} is not clear: ${fault}.` : "Give a number above 0.";
    }

    /** Show words in the place of an answer, as a fault or not. */
    function showWords(name, words, isFault = false) {
      find(`${name}-said`).replaceChildren(...[words].flat());
      find(`${name}-said`).classList.toggle("refused", isFault);
      find(`${name}-amount`).setAttribute("aria-invalid", isFault);
    }

    /** The answer to a question, null if another was asked since; what is wrong is said. */
    async function answer(name, question) {
      const ownTurn = (turns[name] += 1);
      showWords(name, "Asking …");
      try {
        const found = await question();
        return ownTurn === turns[name] ? found : null;
      } catch (fault) {
        if (ownTurn === turns[name]) showWords(name, fault.message, true);
        return null;
      }
    }

    // ---- goals

    /** What was typed: a number, and perhaps the name of the goal. */
    function typedGoal() {
      const [, text, word] = GOAL.exec(find("goal-amount").value) ?? [];
      const kinds = [...find("goal-kind").options].map((option) => option.value);
      const named = kinds.find((kind) => word && kind.startsWith(word.toLowerCase().replace(/s$/, "")));
      if (named) find("goal-kind").value = named;
      if (named) find("goal-amount").value = text.trim();
      const goal = find("goal-kind").value;
      // of things that are counted a comma groups digits
      const read = goal !== "spend" && WHOLE.test(text.trim()) ? entered(text.replaceAll(",", "")) : enteredMoney(text);
      return { goal, amount: read.value, fault: read.fault };
    }

    function goalWords({ goal, amount }) {
      return goal === "spend" ? `${money(amount)} of spend` : `${count(amount)} ${goal}`;
    }

    async function findBid() {
      const { goal, amount, fault } = typedGoal();
      if (!(amount > 0)) return showWords("goal", unclear("goal", fault), true);
      const { one, day, when } = asked;
      const found = await answer("goal", () => answers.bidFor({ one, day, goal, amount }));
      if (!found) return undefined;
      if (!found.reached) return showWords("goal", sentence(found.why), true);
      const bid = roundedUp(found.bid);
      fields.setBid(bid, bid);
      const reached = goalWords({ goal, amount });
      const parts = [strong(money(bid)), ` is the least bid expected to reach ${reached} ${when}. `];
      parts.push(safeWords(found.safe_bid, found.safe_why));
      return showWords("goal", parts);
    }

    /** From which bid on even the lower end of the interval reaches the goal; undefined: no interval. */
    function safeWords(bid, why) {
      if (bid === undefined) return "";
      if (why) return `From ${money(bid)} on, ${why}.`;
      const from = bid === null ? "At no bid" : `From ${money(bid)} on`;
      return `${from} ${bid === null ? "is the whole interval" : "the whole interval is"} above it.`;
    }

    function sentence(why) {
      return `${why.charAt(0).toUpperCase()}${why.slice(1)}${/[.!?]$/.test(why) ? "" : "."}`;
    }

    // ---- budgets

    async function takeBudget() {
      const amount = enteredMoney(find("budget-amount").value);
      const { value: days } = entered(find("budget-days").value);
      if (!(amount.value > 0)) {
        return showWords("budget", unclear("budget", amount.fault), true);
      }
      const most = Number(find("budget-days").dataset.most);
      if (!(Number.isInteger(days) && days >= 1 && days <= most)) {
        return showWords("budget", `Give a whole number of days, 1 to ${most}.`, true);
      }
      planned = { budget: amount.value, days };
      const plan = await makePlan();
      if (plan && plan.using_bid !== null) {
        const bid = Number(plan.using_bid.toPrecision(4));
        planned.bid = bid;
        fields.setBid(bid, bid);
      }
      return undefined;
    }

    async function makePlan(bid) {
      const { one, day } = asked;
      const plan = await answer("budget", () => answers.plan({ one, day, ...planned, bid }));
      if (plan) showPlan(plan);
      return plan;
    }

    function planAgain() {
      clearTimeout(resting);
      // the bid that the plan itself chose is planned already
      if (planned.bid === asked.bid) return;
      resting = setTimeout(() => {
        planned.bid = asked.bid;
        makePlan(asked.bid);
      }, REST);
    }

    function showPlan(plan) {
      const parts = plan.why ? [sentence(plan.why), " "] : [];
      if (plan.using_bid !== null) parts.push("A bid of ", strong(money(plan.using_bid)), " uses the budget. ");
      parts.push(...boughtWords(plan), ...(plan.using_bid === null ? [] : lastsWords(plan)));
      showWords("budget", parts);
      find("budget-plan").hidden = false;
      const days = plan.by_day.map((one, i) => one.day || `day ${i + 1}`);
      const start = { observed: null, expected: 0, low: 0, high: 0 };
      const ends = ({ spent, spent_interval: [low, high] }) => ({ ...start, expected: spent, low, high });
      coterieCharts.dayChart(find("budget-chart"), {
        label: `Money spent by day at a bid of ${money(plan.bid)}, with its interval`,
        days: ["start", ...days],
        rows: [start, ...plan.by_day.map(ends)],
        format: money,
        limit: { value: plan.budget, label: `budget ${money(plan.budget)}` },
        fromZero: true,
      });
      find("budget-table").replaceChildren(...plan.by_day.map((one, i) => dayRow(one, days[i])));
    }

    function range([low, high], format) {
      return whole(span({ low, high }, format));
    }

    function boughtWords(plan) {
      const parts = [`At ${money(plan.bid)} it buys `, strong(`${count(plan.impressions)} impressions`), " ("];
      parts.push(range(plan.impressions_interval, count), `) for ${money(plan.spend)} (`);
      parts.push(range(plan.spend_interval, money), ")");
      if (plan.clicks !== null) parts.push(`, ${count(plan.clicks)} clicks (`, range(plan.clicks_interval, count), ")");
      return [...parts, ". "];
    }

    function lastsWords({ lasts, days, days_until_empty: until, days_until_empty_interval: ends }) {
      const all = days === 1 ? "the whole day" : `all ${days} days`;
      if (until === null) return [`The money lasts for ${all}.`];
      const number = (value) => String(Number(value.toPrecision(3)));
      const chance = lasts < 0.001 ? "It" : `It lasts for ${all} with a probability of ${percent(lasts)}; otherwise it`;
      const parts = [`${chance} runs out after about `];
      parts.push(strong(`${number(until)} days`));
      if (ends) parts.push(" (", range(ends, number), ")");
      return [...parts, "."];
    }

    function dayRow({ auctions, impressions, spend, spent, spent_interval: ends }, day) {
      const cells = [[auctions, count], [impressions, count], [spend, money], [spent, money]];
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, day),
        ...cells.map(([value, format]) => element("td", {}, exact(value, format(value)))),
        element("td", { class: "soft" }, range(ends, money)),
      );
    }

    function hidePlan() {
      planned = null;
      clearTimeout(resting);
      showWords("budget", "");
      find("budget-plan").hidden = true;
    }

    // ---- what is asked

    function follow(next) {
      const isSame = asked && next && asked.one === next.one && asked.day === next.day;
      asked = next;
      if (!isSame) {
        turns.goal += 1;
        turns.budget += 1;
        showWords("goal", "");
        if (find("budget-form")) hidePlan();
      } else if (planned) planAgain();
    }

    function wire(name, act) {
      find(`${name}-form`)?.addEventListener("submit", (event) => {
        event.preventDefault();
        if (asked?.one && asked.one.text !== "") act();
      });
    }

    wire("goal", findBid);
    wire("budget", takeBudget);
    find("budget-amount")?.addEventListener("input", () => find("budget-amount").value.trim() === "" && hidePlan());

    return Object.freeze({ follow });
  }

  return decisions;
})();
