"use strict";
/*
 * A search field with a list of matches, for keyboard and pointer.
 *
 * Follows the combobox pattern of the ARIA Authoring Practices: the focus stays in the field,
 * aria-activedescendant names the active line. Only the matches are in the document,
 * so the field works for 20,000 items as well as for 20.
 */
const coterieCombobox = (() => {
  /** The items whose key contains the query, in the given order; keys that start with it first. */
  function search(items, query, most) {
    const wanted = query.trim().toLowerCase();
    const first = [];
    const rest = [];
    for (const item of items) {
      const place = item.key.indexOf(wanted);
      if (place === 0) first.push(item);
      else if (place > 0 && rest.length < most) rest.push(item);
      if (first.length >= most) break;
    }
    return [...first, ...rest].slice(0, most);
  }

  /**
   * Make a combobox of an input and a list element.
   *
   * find(query): the items found, each with a name, or a promise of them; asked anew only after
   * wait milliseconds without typing. describe(item): the nodes of its line; onChoose(item);
   * nothing: what to say where nothing is found; rest(found): optional, what to say below them.
   * Text that was entered and is nothing's name marks the field as invalid while it stands there.
   */
  function combobox(input, list, { find, describe, onChoose, nothing, rest, wait = 0 }) {
    let found = [];
    let active = -1;
    let chosen = "";
    let turn = 0;
    let timer = 0;
    let searching = false;
    let hurried = false;

    function open(query) {
      const ownTurn = (turn += 1);
      searching = true;
      hurried = false;
      input.setAttribute("aria-expanded", "true");
      clearTimeout(timer);
      const look = () => {
        const items = find(query);
        if (!(items instanceof Promise)) return offer(items, query);
        return items.then(
          (later) => ownTurn === turn && offer(later, query),
          (fault) => ownTurn === turn && offer([], query, fault.message),
        );
      };
      if (wait && query.trim()) timer = setTimeout(look, wait);
      else look();
    }

    function offer(items, query, otherwise = nothing) {
      searching = false;
      found = items;
      list.replaceChildren(...found.map(line));
      const below = found.length ? (rest?.(found) ?? "") : otherwise;
      if (below) list.append(remark(below, found.length ? "rest" : "nothing"));
      list.hidden = false;
      move(query.trim() && found.length ? 0 : -1);
      if (hurried) enter();
    }

    function remark(words, kind) {
      const made = document.createElement("li");
      made.className = kind;
      made.textContent = words;
      return made;
    }

    function line(item, i) {
      const option = document.createElement("li");
      option.id = `${list.id}-${i}`;
      option.setAttribute("role", "option");
      option.append(...describe(item));
      // runs before the field loses the focus, which would close the list
      option.addEventListener("pointerdown", (event) => event.preventDefault());
      option.addEventListener("click", () => choose(item));
      return option;
    }

    function move(to) {
      const options = list.querySelectorAll("[role=option]");
      options[active]?.setAttribute("aria-selected", "false");
      active = to;
      const option = options[active];
      option?.setAttribute("aria-selected", "true");
      option?.scrollIntoView({ block: "nearest" });
      if (option) input.setAttribute("aria-activedescendant", option.id);
      else input.removeAttribute("aria-activedescendant");
    }

    function close() {
      clearTimeout(timer);
      turn += 1;
      searching = false;
      list.hidden = true;
      active = -1;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }

    function choose(item) {
      show(item.name);
      close();
      onChoose(item);
    }

    function show(name) {
      chosen = name;
      input.value = name;
      input.setAttribute("aria-invalid", "false");
    }

    function enter() {
      // the search has not started yet: the first match will be chosen
      if (searching) hurried = input.value.trim() !== "";
      else if (!list.hidden && found[active]) choose(found[active]);
      else if (input.value.trim() && input.value !== chosen) input.setAttribute("aria-invalid", "true");
    }

    const keys = {
      ArrowDown: () => (list.hidden ? open("") : move(Math.min(active + 1, found.length - 1))),
      ArrowUp: () => (list.hidden ? open("") : move(Math.max(active - 1, 0))),
      Enter: enter,
      Escape: () => {
        show(chosen);
        close();
      },
    };
    input.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
    input.addEventListener("input", () => {
      input.setAttribute("aria-invalid", "false");
      open(input.value);
    });
    input.addEventListener("click", () => {
      if (!list.hidden) return;
      input.select();
      open("");
    });
    input.addEventListener("blur", () => {
      show(chosen);
      close();
    });
    return { show };
  }

  return Object.freeze({ combobox, search });
})();
