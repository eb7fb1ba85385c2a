"use strict";
/* Nodes of a page made from text; the text is never parsed as HTML. */
const coterieNodes = (() => {
  const find = (id) => document.getElementById(id);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** A small button; press is called when it is pressed. */
  function button(name, press, attributes = {}) {
    const made = element("button", { type: "button", class: "more", ...attributes }, name);
    made.addEventListener("click", press);
    return made;
  }

  /** Show an element that is not on the screen, and put the focus there. */
  function goTo(place) {
    place.scrollIntoView();
    place.focus({ preventScroll: true });
  }

  /** Names and values of a list of definitions. */
  function definitions(pairs) {
    return pairs.map(([name, ...value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, ...value)),
    );
  }

  /** Control characters as visible symbols, lone surrogates as the replacement character. */
  function visible(text) {
    const picture = (one) => String.fromCharCode(one < " " ? 0x2400 + one.charCodeAt(0) : 0x2421);
    return text
      .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, picture)
      .replace(/\p{Surrogate}/gu, "\ufffd");
  }

  /** An id as text with its own direction, shortened if very long. */
  function idText(id) {
    return element("bdi", { class: "id", title: visible(id) }, visible(id));
  }

  /** A number as shown, with its exact value as an attribute. */
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

  return Object.freeze({ button, definitions, element, exact, find, goTo, idText, strong, visible, whole });
})();
