"use strict";
/*
 * Requests to the service, with its token, repeated while it cannot answer.
 *
 * coterieCalls({ askToken, trouble, well }) gives get(path, signal) and post(path, body, signal).
 * Both return the JSON of the answer, or throw an error whose message is shown. A call waits
 * while the service cannot be reached or is busy: trouble(words, milliseconds, signal) says so and
 * resolves when it is to be tried again, well() takes that back. askToken(refused) resolves with
 * a token.
 */
const coterieCalls = (() => {
  const KEPT = "coterie-token";
  const PATIENCE = 15_000;
  const LONGEST_WAIT = 15_000;
  const BUSY = new Set([408, 429, 502, 503, 504]);

  /** A refusal for which a repeated request is useless. */
  class Refusal extends Error {
    constructor(words, status) {
      super(words);
      this.status = status;
    }
  }

  /** The storage of this tab; null if the browser forbids it. */
  function storage() {
    try {
      return window.sessionStorage;
    } catch {
      return null;
    }
  }

  function calls({ askToken, trouble, well }) {
    let token = storage()?.getItem(KEPT) ?? null;
    let asking = null;

    async function call(path, request, signal) {
      for (let tries = 0; ; tries += 1) {
        const { status, body, words, wait } = await tried(path, request, signal, tries);
        if (!status) await trouble(words, wait, signal);
        else if (status === 401) await getToken(request.token);
        else if (status < 300) return body;
        else throw new Refusal(wordsOf(status, body), status);
      }
    }

    /** Send one request; return the answer, or the reason for none and how long to wait. */
    async function tried(path, request, signal, tries) {
      const backOff = Math.min(LONGEST_WAIT, 500 * 2 ** tries);
      const limit = AbortSignal.timeout(PATIENCE);
      request.token = token;
      const headers = { ...request.headers };
      if (token !== null) headers.Authorization = `Bearer ${token}`;
      try {
        const either = AbortSignal.any([limit, ...(signal ? [signal] : [])]);
        const answer = await fetch(path, { ...request, headers, signal: either });
        if (!BUSY.has(answer.status)) {
          const body = await (answer.ok ? answer.json() : answer.json().catch(() => ({})));
          well();
          return { status: answer.status, body };
        }
        const asked = 1000 * Number(answer.headers.get("Retry-After"));
        const wait = Math.max(backOff, Math.min(LONGEST_WAIT, asked || 0));
        return { words: "The service is busy.", wait };
      } catch {
        signal?.throwIfAborted();
        const how = limit.aborted ? "takes very long to" : "does not";
        return { words: `The service ${how} answer.`, wait: backOff };
      }
    }

    /** Ask for a token once, even if several calls need it. */
    async function getToken(refused) {
      // another call may have stored a new token meanwhile
      if (refused !== token) return;
      asking ??= askToken(refused !== null).then((given) => {
        token = given;
        storage()?.setItem(KEPT, token);
        asking = null;
      });
      await asking;
    }

    return Object.freeze({
      get: (path, signal) => call(path, {}, signal),
      post: (path, body, signal) =>
        call(
          path,
          {
            method: "POST",
            headers: { "Content-Type": "application/json" },
            body: JSON.stringify(body),
          },
          signal,
        ),
    });
  }

  /** The message of a problem of the service. */
  function wordsOf(status, problem) {
    if (problem.errors?.length) {
      // "bid[17]" is a position in the request, which the page does not show
      const place = (at) => at.replace(/\[\d+\]/g, "").replace("supply", "auctions");
      const faults = problem.errors.map(({ at, what }) => `${place(at)}: ${what}`);
      return `The service refused this: ${[...new Set(faults)].join("; ")}.`;
    }
    const detail = problem.detail ?? problem.title ?? `status ${status}`;
    const request = problem.request_id ? ` (request ${problem.request_id})` : "";
    return status >= 500
      ? `The service failed${request}; its log says why.`
      : `The service refused this: ${detail}.`;
  }

  return calls;
})();
