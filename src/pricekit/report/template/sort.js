"use strict";
for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th").forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = header.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", up ? "ascending" : "descending");
      const numeric = header.classList.contains("number");
      const key = (row) => {
        const text = row.cells[column].textContent;
        return numeric ? parseFloat(text.replace(/,/g, "")) || 0 : text;
      };
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        return numeric ? x - y : x.localeCompare(y);
      });
      body.append(...(up ? rows : rows.reverse()));
    });
  });
}
