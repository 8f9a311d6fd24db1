// Makes the drawings of a page interactive and offers each as SVG, PNG and CSV. Without it the page reads all the same.
(() => {
  "use strict";

  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const svgText = (figure) => {
    const copy = figure.querySelector(".drawn svg").cloneNode(true);
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

  const csvCell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };

  const csvText = (rows) => {
    const columns = [...new Set(rows.flatMap(Object.keys))];
    const lines = rows.map((row) => columns.map((column) => csvCell(row[column])).join(","));
    return [columns.map(csvCell).join(","), ...lines].join("\n") + "\n";
  };

  const button = (label, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.addEventListener("click", action);
    return made;
  };

  const offer = (figure, rows) => {
    const line = document.createElement("p");
    line.className = "downloads";
    line.append(button("SVG", () => save(figure.id + ".svg", new Blob([svgText(figure)], { type: "image/svg+xml" }))));
    line.append(button("PNG", () => savePng(figure)));
    if (rows) {
      line.append(button("CSV", () => save(figure.id + ".csv", new Blob([csvText(rows)], { type: "text/csv" }))));
    }
    figure.append(line);
  };

  // A specification for the width there is. On a phone names make room for what they name.
  const fitting = (spec, width) => {
    const narrow = width < 500;
    const legend = narrow ? { ...spec.config.legend, columns: 1 } : spec.config.legend;
    const fitted = { ...spec, width, config: { ...spec.config, axisX: { labelOverlap: "greedy" }, legend } };
    for (const view of narrow ? [fitted, ...(fitted.layer || [])] : []) {
      const y = view.encoding && view.encoding.y;
      if (y && y.axis !== null) view.encoding = { ...view.encoding, y: { ...y, axis: { ...y.axis, labelLimit: 110 } } };
    }
    return fitted;
  };

  const enliven = (figure, spec) => {
    const live = document.createElement("div");
    live.className = "live";
    const drawn = figure.querySelector(".drawn");
    drawn.after(live);
    const fluid = figure.classList.contains("fluid");
    const shown = fluid ? fitting(spec, live.clientWidth) : spec;
    const options = { actions: false, renderer: "svg", tooltip: { theme: "light" } };
    return window.vegaEmbed(live, shown, options).then(
      ({ view }) => {
        drawn.style.display = "none";
        figure.dataset.live = "yes";
        if (fluid) window.addEventListener("resize", () => view.width(live.clientWidth).runAsync());
      },
      (error) => { live.remove(); console.error(figure.id, error); }
    );
  };

  const specs = {};
  for (const script of document.querySelectorAll("script[data-chart]")) {
    specs[script.dataset.chart] = JSON.parse(script.textContent);
  }
  const work = [];
  for (const figure of document.querySelectorAll("figure")) {
    const spec = specs[figure.id];
    offer(figure, spec && spec.data.values);
    if (spec && window.vegaEmbed) work.push(enliven(figure, spec));
  }
  Promise.all(work).then(() => { document.body.dataset.ready = "yes"; });
})();
