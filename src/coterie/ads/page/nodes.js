"use strict";
/* Parts of a page made of text: whatever it says, text is all it can become. */
const coterieNodes = (() => {
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** Control characters as their pictures, halves of characters as the sign for unknown. */
  function visible(text) {
    const picture = (one) => String.fromCharCode(one < " " ? 0x2400 + one.charCodeAt(0) : 0x2421);
    return text
      .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, picture)
      .replace(/\p{Surrogate}/gu, "\ufffd");
  }

  /** An id as text of its own direction, cut where it is very long. */
  function idText(id) {
    return element("bdi", { class: "id", title: visible(id) }, visible(id));
  }

  /** A number as shown, with its exact value for whoever copies or tests it. */
  function exact(value, text) {
    return element("data", { value }, text);
  }

  /** Text, or parts of it, that stay on one line. */
  function whole(...parts) {
    return element("span", { class: "whole" }, ...parts);
  }

  function strong(text) {
    return element("strong", {}, text);
  }

  return Object.freeze({ element, exact, idText, strong, visible, whole });
})();
