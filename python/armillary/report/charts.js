// Makes the drawings of a page interactive: tooltips, zoom on time axes, values as a table, files to keep.
(() => {
  "use strict";

  const ROWS = 1000; // of a chart's values as a table; the CSV has all

  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const svgText = (figure) => {
    const copy = (figure.querySelector(".drawn svg") || figure.querySelector(".live svg")).cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(copy);
  };

  const savePng = (figure) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * image.width;
      canvas.height = 2 * image.height;
      const context = canvas.getContext("2d");
      context.scale(2, 2);
      context.drawImage(image, 0, 0);
      canvas.toBlob((blob) => save(figure.id + ".png", blob), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(figure));
  };

  // Spreadsheets take a text that begins so for a formula.
  const csvCell = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };

  const columnsOf = (rows) => [...new Set(rows.flatMap(Object.keys))];

  const csvText = (rows) => {
    const columns = columnsOf(rows);
    const lines = rows.map((row) => columns.map((column) => csvCell(row[column])).join(","));
    return [columns.map(csvCell).join(","), ...lines].join("\n") + "\n";
  };

  const cell = (tag, text, scope) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (scope) made.scope = scope;
    return made;
  };

  const valueTable = (title, rows) => {
    const columns = columnsOf(rows);
    const table = document.createElement("table");
    table.createCaption().textContent = `Values: ${title}` + (rows.length > ROWS ? ` (first ${ROWS}; all are in the CSV)` : "");
    const head = table.createTHead().insertRow();
    for (const column of columns) head.append(cell("th", column, "col"));
    const body = table.createTBody();
    for (const row of rows.slice(0, ROWS)) {
      const line = body.insertRow();
      for (const column of columns) {
        const value = row[column];
        line.append(cell("td", typeof value === "number" ? String(+value.toPrecision(7)) : value === null || value === undefined ? "" : String(value)));
      }
    }
    return table;
  };

  const valuesButton = (figure, rows) => {
    let box = null;
    const button = armillary.button("Values", () => {
      if (!box) {
        box = document.createElement("div");
        box.className = "table values";
        const scroll = document.createElement("div");
        scroll.className = "scroll";
        scroll.append(valueTable(figure.querySelector("figcaption").textContent, rows));
        box.append(scroll);
        figure.append(box);
        armillary.table(scroll.firstChild);
      } else {
        box.hidden = !box.hidden;
      }
      button.setAttribute("aria-expanded", String(!box.hidden));
    });
    button.setAttribute("aria-expanded", "false");
    return button;
  };

  const offer = (figure, rows) => {
    const line = document.createElement("p");
    line.className = "tools downloads";
    if (figure.querySelector("svg")) {
      line.append(armillary.button("SVG", () => save(figure.id + ".svg", new Blob([svgText(figure)], { type: "image/svg+xml" }))));
      line.append(armillary.button("PNG", () => savePng(figure)));
    }
    if (rows && rows.length) {
      line.append(armillary.button("CSV", () => save(figure.id + ".csv", new Blob([csvText(rows)], { type: "text/csv" }))));
      line.append(valuesButton(figure, rows));
    }
    figure.append(line);
    return line;
  };

  // Names that break into lines break into shorter ones, others are cut.
  const isBroken = (axis) => axis && axis.labelExpr && axis.labelExpr.startsWith("split(");
  const slim = (axis) => {
    if (!isBroken(axis)) return { ...axis, labelLimit: 110 };
    const higher = [80, 60, 40, 20].map((most) => ({ test: `length(datum.label) > ${most}`, value: -0.35 * most }));
    const labelExpr = axis.labelExpr.replace(/\{1,\d+\}/, "{1,20}");
    return { ...axis, labelLimit: 150, labelExpr, labelOffset: { condition: higher, value: 0 } };
  };

  // A specification for the width there is. On a phone names make room for what they name.
  const fitting = (spec, width) => {
    const narrow = width < 500;
    const legend = narrow ? { ...spec.config.legend, columns: 1 } : spec.config.legend;
    const fitted = { ...spec, width, config: { ...spec.config, axisX: { labelOverlap: "greedy", labelSeparation: 6 }, legend } };
    for (const view of narrow ? [fitted, ...(fitted.layer || [])] : []) {
      const y = view.encoding && view.encoding.y;
      if (y && y.axis !== null) view.encoding = { ...view.encoding, y: { ...y, axis: slim(y.axis) } };
      if (y && isBroken(y.axis)) fitted.height = Math.round(2.3 * spec.height);
    }
    return fitted;
  };

  // Groups of marks that Vega gives no name have that of the chart; it removes labels when it draws again, not references.
  const named = (live, caption) => {
    caption.id = caption.closest("figure").id + "-caption";
    for (const mark of live.querySelectorAll("[role='graphics-symbol']:not([aria-label])")) {
      mark.setAttribute("aria-labelledby", caption.id);
    }
  };

  // What a reader chooses in a chart is labelled, where its specification gives a blank name.
  const labelled = (live, title) => {
    for (const field of live.querySelectorAll("select, input")) {
      const name = field.closest("label")?.querySelector(".vega-bind-name")?.textContent.trim();
      if (!name) field.setAttribute("aria-label", `What to show: ${title}`);
    }
  };

  // Time axes: charts of one range are zoomed together.
  const groups = new Map();
  let hinted = false;

  const zoomer = (figure, view, tools) => {
    const end = view.signal("zoom_to");
    const group = groups.get(end) || { views: [], from: 0, to: end };
    groups.set(end, group);
    group.views.push(view);

    const set = (from, to) => {
      const width = Math.min(Math.max(to - from, end * 1e-6), end);
      group.from = Math.min(Math.max(from, 0), end - width);
      group.to = group.from + width;
      for (const each of group.views) each.signal("zoom_from", group.from).signal("zoom_to", group.to).runAsync();
    };
    const scale = (factor, at = (group.from + group.to) / 2) =>
      set(at - (at - group.from) * factor, at + (group.to - at) * factor);
    const move = (part) => {
      const by = (group.to - group.from) * part;
      set(group.from + by, group.to + by);
    };
    const whole = () => set(0, end);

    const left = () => view.padding().left + view.origin()[0];
    const timeAt = (x) => view.scale("x").invert(Math.min(Math.max(x - left(), 0), view.width()));
    const live = figure.querySelector(".live");
    const place = (event) => event.clientX - live.getBoundingClientRect().left + live.scrollLeft;

    let start = null;
    const brush = document.createElement("div");
    brush.className = "brush";
    brush.hidden = true;
    live.append(brush);
    live.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || event.target.closest("form")) return;
      start = { x: place(event), from: group.from, to: group.to, pan: event.shiftKey };
      live.setPointerCapture(event.pointerId);
    });
    live.addEventListener("pointermove", (event) => {
      if (!start) return;
      const x = place(event);
      if (start.pan) {
        const by = ((x - start.x) / view.width()) * (start.to - start.from);
        set(start.from - by, start.to - by);
        return;
      }
      brush.hidden = Math.abs(x - start.x) < 4;
      Object.assign(brush.style, { left: `${Math.min(x, start.x)}px`, width: `${Math.abs(x - start.x)}px`,
        top: `${view.padding().top + view.origin()[1]}px`, height: `${view.height()}px` });
    });
    live.addEventListener("pointerup", (event) => {
      if (!start) return;
      const [a, b] = [start.x, place(event)].sort((p, q) => p - q);
      if (!start.pan && b - a >= 4) set(timeAt(a), timeAt(b));
      start = null;
      brush.hidden = true;
    });
    live.addEventListener("pointercancel", () => { start = null; brush.hidden = true; });
    live.addEventListener("dblclick", whole);
    live.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return; // the wheel alone scrolls the page
      event.preventDefault();
      scale((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, timeAt(place(event)));
    }, { passive: false });

    const gap = document.createElement("span");
    gap.className = "gap";
    if (!hinted) {
      const hint = document.createElement("span");
      hint.textContent = "Drag to zoom, Shift and drag to move, double-click for the whole axis.";
      tools.append(hint);
      hinted = true;
    }
    tools.prepend(
      armillary.button("+", () => scale(0.5), "Zoom in on the time axis"),
      armillary.button("\u2212", () => scale(2), "Zoom out on the time axis"),
      armillary.button("\u2190", () => move(-0.5), "Earlier"),
      armillary.button("\u2192", () => move(0.5), "Later"),
      armillary.button("Whole", whole, "Show the whole time axis"),
      gap
    );
  };

  const enliven = (figure, spec, tools) => {
    const live = document.createElement("div");
    live.className = "live";
    const drawn = figure.querySelector(".drawn");
    drawn.after(live);
    const fluid = figure.classList.contains("fluid");
    const shown = fluid ? fitting(spec, live.clientWidth) : spec;
    const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false,
      tooltip: { disableDefaultStyle: true } };
    return window.vegaEmbed(live, shown, options).then(
      ({ view }) => {
        drawn.style.display = "none";
        figure.dataset.live = "yes";
        const caption = figure.querySelector("figcaption");
        named(live, caption);
        labelled(live, caption.textContent);
        if (spec.params && spec.params.some((param) => param.name === "zoom_to")) zoomer(figure, view, tools);
        if (fluid) new ResizeObserver(() => { if (live.clientWidth) view.width(live.clientWidth).runAsync(); }).observe(live);
        armillary.reachable(live);
      },
      (error) => { live.remove(); console.error(figure.id, error); }
    );
  };

  // Rows may come as lists below the names of their columns.
  const unpacked = (spec) => {
    const { columns, rows } = spec.data;
    if (rows) spec.data = { values: rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]]))) };
    return spec;
  };

  const specs = {};
  for (const script of document.querySelectorAll("script[data-chart]")) {
    specs[script.dataset.chart] = unpacked(JSON.parse(script.textContent));
  }
  const work = [];
  for (const figure of document.querySelectorAll("figure")) {
    const spec = specs[figure.id];
    const tools = offer(figure, spec && spec.data.values);
    if (spec && window.vegaEmbed) work.push(enliven(figure, spec, tools));
  }
  for (const box of document.querySelectorAll(".drawn")) armillary.reachable(box);
  Promise.all(work).then(() => { document.body.dataset.ready = "yes"; });
})();
