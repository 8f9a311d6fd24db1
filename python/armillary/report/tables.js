// Tables that sort by their columns, filter by what is typed, and show all their rows on demand.
(() => {
  "use strict";

  const FILTERED = 8; // rows of a table that can be searched
  const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // What a cell is sorted by: a number where the whole column says numbers, else its text.
  const worth = (cell) => {
    if (!cell) return NaN;
    const text = cell.textContent.trim().replaceAll(",", "");
    return cell.dataset.v !== undefined ? Number(cell.dataset.v) : text === "" ? NaN : Number(text);
  };

  const sorted = (rows, column, falling) => {
    const text = (row) => (row.cells[column] ? row.cells[column].textContent.trim() : "");
    const values = new Map(rows.map((row) => [row, worth(row.cells[column])]));
    const filled = rows.filter((row) => !["", "-"].includes(text(row)));
    const numeric = filled.length > 0 && filled.every((row) => !Number.isNaN(values.get(row)));
    const turn = falling ? -1 : 1;
    const empty = (row) => !filled.includes(row);
    return [...rows].sort((a, b) => {
      if (empty(a) || empty(b)) return empty(a) - empty(b);
      return turn * (numeric ? values.get(a) - values.get(b) : names.compare(text(a), text(b)));
    });
  };

  const isNumeric = (rows, column) =>
    rows.some((row) => row.cells[column] && !Number.isNaN(worth(row.cells[column])));

  const live = (table) => {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const limit = Number(table.dataset.shown || original.length);
    const state = { rows: original, all: original.length <= limit + 2, word: "" };
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    let more = null;

    const show = () => {
      const found = state.rows.filter((row) => row.textContent.toLowerCase().includes(state.word));
      const shown = new Set(state.all || state.word ? found : found.slice(0, limit));
      for (const row of original) row.hidden = !shown.has(row);
      body.append(...state.rows);
      count.textContent = shown.size < original.length ? `${shown.size} of ${original.length} rows` : "";
      if (more) more.textContent = state.all ? `Show ${limit} rows` : `Show all ${original.length} rows`;
    };

    const order = (column, heads) => {
      const head = heads[column];
      const before = head.getAttribute("aria-sort");
      const first = isNumeric(original, column) ? "descending" : "ascending";
      const second = first === "descending" ? "ascending" : "descending";
      const next = before === first ? second : before === second ? null : first;
      for (const each of heads) each.removeAttribute("aria-sort");
      if (next) head.setAttribute("aria-sort", next);
      state.rows = next ? sorted(original, column, next === "descending") : original;
      show();
    };

    if (original.length > 1) {
      const heads = [...table.tHead.rows[0].cells];
      heads.forEach((head, column) => {
        if (!head.textContent.trim()) return;
        const button = armillary.button(head.textContent, () => order(column, heads));
        button.className = "sort";
        head.replaceChildren(button);
      });
    }
    const tools = document.createElement("p");
    tools.className = "tools";
    if (original.length > limit + 2) {
      more = armillary.button("", () => { state.all = !state.all; show(); });
      tools.append(more);
    }
    if (original.length > FILTERED) {
      const field = document.createElement("input");
      field.type = "search";
      field.placeholder = "Filter rows";
      field.setAttribute("aria-label", `Filter rows of ${table.caption ? table.caption.textContent : "the table"}`);
      field.addEventListener("input", () => { state.word = field.value.trim().toLowerCase(); show(); });
      tools.append(field, count);
    }
    if (tools.childElementCount) table.closest(".scroll").after(tools);
    show();
    reachable(table.closest(".scroll"));
  };

  // What scrolls must be reachable without a mouse.
  const reachable = (box) => {
    const update = () => {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    };
    new ResizeObserver(update).observe(box);
    update();
  };

  armillary.table = live;
  armillary.reachable = reachable;
  for (const table of document.querySelectorAll(".table table")) live(table);
})();
