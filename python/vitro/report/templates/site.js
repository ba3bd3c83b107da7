// Sorts and filters the table of points. Without it the page is a plain table.
"use strict";
const table = document.querySelector("table.points");
if (table) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const count = document.querySelector("#count"), words = document.querySelector("#words");
  const selects = [...document.querySelectorAll("select[data-column]")];
  const value = (row, at) => row.cells[at].dataset.value ?? row.cells[at].textContent.trim();

  function compare(a, b) {  // numbers by size, then texts; what is not there comes last
    const missing = (a === "") - (b === "");
    if (missing || a === b) return missing;
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, {numeric: true}) : x - y;
  }
  heads.forEach((head, at) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const present = (row) => value(row, at) !== "";
      const sorted = [...rows].sort((a, b) => {
        const order = compare(value(a, at), value(b, at));
        return down && present(a) && present(b) ? -order : order;
      });
      body.append(...sorted);
    });
  });
  function filter() {
    const wanted = words.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = wanted.every((word) => text.includes(word))
        && selects.every((select) => select.value === "" || value(row, Number(select.dataset.column)) === select.value);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} points`;
  }
  words.addEventListener("input", filter);
  selects.forEach((select) => select.addEventListener("change", filter));
  filter();
}
