"use strict";
/* Parts of a page made of text: whatever it says, text is all it can become. */
const coterieNodes = (() => {
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** An id as text of its own direction, cut where it is very long. */
  function idText(id) {
    return element("bdi", { class: "id", title: id }, id);
  }

  /** A number as shown, with its exact value for whoever copies or tests it. */
  function exact(value, text) {
    return element("data", { value }, text);
  }

  /** Text that stays on one line. */
  function whole(text) {
    return element("span", { class: "whole" }, text);
  }

  function strong(text) {
    return element("strong", {}, text);
  }

  return Object.freeze({ element, exact, idText, strong, whole });
})();
