"use strict";
/*
 * Numbers as people type them, with a decimal point or a decimal comma.
 *
 * coterieEntered.number(text) is { value }, or { fault } with what is wrong with the text. A comma
 * is accepted if it has one meaning: "2,80" is 2.8 and "1,000,000" a million, but "1,000" can be
 * either and is refused.
 */
const coterieEntered = (() => {
  const PLAIN = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const GROUPS = /^[1-9]\d{0,2}((,\d{3}){2,}(\.\d*)?|(,\d{3})+\.\d*)$/;
  const SPACED = /^[1-9]\d{0,2}([ \u00a0\u202f]\d{3})+([.,]\d*)?$/;
  const AMBIGUOUS = /^[1-9]\d{0,2},\d{3}$/;
  const DECIMAL_COMMA = /^[+-]?(\d+,\d*|,\d+)$/;

  function number(text) {
    const given = text.trim();
    if (AMBIGUOUS.test(given)) {
      const [thousands, fraction] = [given.replace(",", ""), given.replace(",", ".")];
      return { fault: `“${given}” may mean ${thousands} or ${fraction}: write one of them` };
    }
    const plain = plainly(given);
    const value = plain === null ? NaN : Number(plain);
    return Number.isFinite(value) ? { value } : { fault: "" };
  }

  /** The number as a program writes it; null if the text is not a number. */
  function plainly(given) {
    if (PLAIN.test(given)) return given;
    if (GROUPS.test(given)) return given.replaceAll(",", "");
    if (SPACED.test(given)) return given.replace(/\s/g, "").replace(",", ".");
    return DECIMAL_COMMA.test(given) ? given.replace(",", ".") : null;
  }

  return Object.freeze({ number });
})();
