// The filters of the ledger. Each row says in its classes what it is; the choice stands in the address, so it can be sent.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("ledger-filter");
  if (!form) return;
  const fields = ["paper", "verdict", "kind"].map((name) => [name, document.getElementById("ledger-" + name)]);
  const text = document.getElementById("ledger-text");
  const count = document.getElementById("ledger-count");
  const plain = (words) => words.toLowerCase().replace(/[\s-]+/g, " ");
  const rows = Array.from(document.querySelectorAll("tr.claim"), (row) => ({
    row,
    words: plain(row.closest("section").querySelector("h2").textContent + " " + row.textContent),
  }));
  const section = (row) => row.closest("section");
  const sections = new Set(rows.map(({ row }) => section(row)));

  const matches = ({ row, words }) =>
    fields.every(([name, field]) => !field.value || row.classList.contains(name + "-" + field.value.replace(/ /g, "-"))) &&
    // a whole number is meant as one: "2" is not to find "12"
    plain(text.value).trim().split(" ").every((word) =>
      /^\d+$/.test(word) ? new RegExp("(?<![\\d.])" + word + "(?![\\d])").test(words) : words.includes(word));

  const apply = () => {
    let shown = 0;
    rows.forEach((one) => {
      one.row.hidden = !matches(one);
      shown += one.row.hidden ? 0 : 1;
    });
    sections.forEach((one) => { one.hidden = !one.querySelector("tr.claim:not([hidden])"); });
    count.value = `${shown} of ${rows.length} claims`;
    const chosen = new URLSearchParams();
    fields.forEach(([name, field]) => field.value && chosen.set(name, field.value));
    if (text.value) chosen.set("text", text.value);
    const query = chosen.toString();
    history.replaceState(null, "", location.pathname + (query ? "?" + query : "") + location.hash);
  };

  const asked = new URLSearchParams(location.search);
  fields.forEach(([name, field]) => { field.value = asked.get(name) || ""; });
  text.value = asked.get("text") || "";
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  if (location.search) apply();
});
