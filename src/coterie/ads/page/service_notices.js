"use strict";
/*
 * Notices about the service: trouble, a new model, a needed token, warnings about the model.
 *
 * coterieNotices has trouble(words, milliseconds, signal), well() and askToken(refused), as
 * service_calls.js needs them, and showNotice(name, words, action, press): a line above the panel, one
 * of each name. warn(sentences) tells the warnings about the model.
 */
const coterieNotices = (() => {
  const { button, element, find, visible } = coterieNodes;
  const waiting = new Set();

  function showNotice(name, words, action, press) {
    const former = find(`notice-${name}`);
    if (former?.dataset.words === words) return;
    former?.remove();
    const line = element("p", { id: `notice-${name}`, class: "notice", "data-words": words });
    line.append(element("span", {}, words), button(action, press));
    find("notices").append(line);
  }

  function hideNotice(name) {
    find(`notice-${name}`)?.remove();
  }

  /** Sentences without a full stop; a press takes one away until the page is loaded again. */
  function warn(sentences) {
    sentences.forEach((sentence, i) => {
      const words = visible(sentence);
      const name = `warning-${i}`;
      showNotice(name, `${words.charAt(0).toUpperCase()}${words.slice(1)}.`, "Hide", () => hideNotice(name));
    });
  }

  function tryNow() {
    for (const again of [...waiting]) again();
  }

  function trouble(words, milliseconds, signal) {
    showNotice("trouble", `${words} It is asked again by itself.`, "Try now", tryNow);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(again, milliseconds);
      waiting.add(again);
      signal?.addEventListener("abort", () => {
        forget();
        reject(signal.reason);
      });

      function forget() {
        clearTimeout(timer);
        waiting.delete(again);
      }

      function again() {
        forget();
        resolve();
      }
    });
  }

  window.addEventListener("online", tryNow);

  // -------------------------------------------------------------------- token

  function askToken(refused) {
    const dialog = find("token-dialog");
    const field = find("token");
    if (refused) find("token-words").textContent = "The service did not accept this token.";
    field.value = "";
    return new Promise((resolve) => {
      const done = new AbortController();
      find("token-form").addEventListener(
        "submit",
        (event) => {
          event.preventDefault();
          const token = field.value.trim();
          // a header cannot contain other characters
          if (!/^[\x21-\x7e]+$/.test(token)) {
            find("token-words").textContent = "A token has letters, digits and signs, no spaces.";
            return;
          }
          done.abort();
          // the token is stored for this tab only, and not in a field
          field.value = "";
          dialog.close();
          hideNotice("token");
          resolve(token);
        },
        { signal: done.signal },
      );
      dialog.addEventListener(
        "close",
        () => {
          field.value = "";
          showNotice("token", "The service asks for a token.", "Enter it", () => dialog.showModal());
        },
        { signal: done.signal },
      );
      dialog.showModal();
    });
  }

  return Object.freeze({ askToken, showNotice, trouble, warn, well: () => hideNotice("trouble") });
})();
