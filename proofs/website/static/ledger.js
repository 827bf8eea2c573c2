// The filters of the ledger. Each row says in its classes what it is; the choice stands in the address, so it can be sent.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("ledger-filter");
  if (!form) return;
  const fields = ["paper", "verdict", "kind"].map((name) => [name, document.getElementById("ledger-" + name)]);
  const text = document.getElementById("ledger-text");
  const count = document.getElementById("ledger-count");
  const short = { thm: "theorem", lem: "lemma", prop: "proposition", cor: "corollary", def: "definition", alg: "algorithm" };
  const plain = (words) => words.toLowerCase().replace(/[\s-]+/g, " ")
    .replace(/\b(thm|lem|prop|cor|def|alg)\b\.?(?= )/g, (word) => short[word.replace(".", "")]).trim();
  // "proposition 2" is one thing to look for, and no beginning of "proposition 23"
  const asked = (words) => (plain(words).match(/[a-z.]+ [a-z]?\d[\d.]*|\S+/g) || [])
    .map((term) => new RegExp(term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + (/\d$/.test(term) ? "(?![.]?\\d)" : "")));
  const rows = Array.from(document.querySelectorAll("tr.claim"), (row) => ({
    row,
    words: plain(row.closest("section").querySelector("h2").textContent + " " + row.textContent),
  }));
  const section = (row) => row.closest("section");
  const sections = new Set(rows.map(({ row }) => section(row)));

  const matches = ({ row, words }, terms) =>
    fields.every(([name, field]) => !field.value || row.classList.contains(name + "-" + field.value.replace(/ /g, "-"))) &&
    terms.every((term) => term.test(words));

  const apply = () => {
    const terms = asked(text.value);
    let shown = 0;
    rows.forEach((one) => {
      one.row.hidden = !matches(one, terms);
      shown += one.row.hidden ? 0 : 1;
    });
    sections.forEach((one) => { one.hidden = !one.querySelector("tr.claim:not([hidden])"); });
    count.value = `${shown} of ${rows.length} claims`;
    const chosen = new URLSearchParams();
    fields.forEach(([name, field]) => field.value && chosen.set(name, field.value));
    if (text.value) chosen.set("text", text.value);
    form.parentElement.classList.toggle("filtered", chosen.size > 0);
    const query = chosen.toString();
    history.replaceState(null, "", location.pathname + (query ? "?" + query : "") + location.hash);
  };

  const address = new URLSearchParams(location.search);
  fields.forEach(([name, field]) => { field.value = address.get(name) || ""; });
  text.value = address.get("text") || "";
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  if (location.search) apply();
});
