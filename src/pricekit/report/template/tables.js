"use strict";
const SHOWN = 15;

function withTools(table) {
  const body = table.tBodies[0], total = body.rows.length, caption = table.caption.textContent;
  const tools = document.createElement("div"), search = document.createElement("input");
  const button = document.createElement("button"), count = document.createElement("span");
  let all = false;
  tools.className = "tools";
  search.type = "search";
  search.placeholder = "search";
  search.setAttribute("aria-label", "Search: " + caption);
  button.type = "button";
  count.setAttribute("role", "status");
  const update = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let matching = 0, shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase(), matches = words.every((word) => text.includes(word));
      matching += matches;
      row.hidden = !matches || (!all && shown >= SHOWN);
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${total} rows`;
    button.textContent = all ? `Show ${SHOWN} rows` : `Show all ${matching}`;
    button.hidden = matching <= SHOWN;
  };
  search.addEventListener("input", update);
  button.addEventListener("click", () => { all = !all; update(); });
  tools.append(search, count, button);
  table.parentNode.before(tools);
  update();
  return update;
}

for (const table of document.querySelectorAll("table")) {
  const update = table.tBodies[0].rows.length > SHOWN ? withTools(table) : () => {};
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
      update();
    });
  });
}
