// The load of links over time: a slider below drawings whose links say what they sent when (`load.py`).
(() => {
  "use strict";

  const SHADES = [[20, "#f2b06a"], [40, "#e57f3d"], [60, "#c94f32"], [80, "#9a2332"], [100, "#5c0a33"]];
  const UNUSED = "#c8c8c8";
  const PACE = 120; // ms for each bin while it plays

  const shade = (percent) => (percent === 0 ? UNUSED : SHADES.find(([most]) => percent <= most)[1]);
  const bins = (text) => text.match(/../g).map((two) => parseInt(two, 16));
  const plain = (ns) => {
    const [scale, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"];
    return `${Number((ns / scale).toPrecision(4))} ${unit}`;
  };

  const play = (figure, drawing) => {
    const step = Number(drawing.dataset.stepNs);
    const width = Number(drawing.dataset.binNs);
    const links = [...drawing.querySelectorAll("[data-sends]")].map((link) => {
      const strokes = link.tagName === "g" ? [...link.querySelectorAll("[stroke]")] : [link];
      const title = link.querySelector("title");
      return { percents: bins(link.dataset.sends), strokes, whole: strokes.map((each) => each.getAttribute("stroke")),
        title, said: title ? title.textContent : "" };
    });
    const count = Math.max(...links.map((link) => link.percents.length));

    const tools = document.createElement("div");
    tools.className = "tools";
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = -1;
    slider.max = count - 1;
    slider.value = -1;
    slider.setAttribute("aria-label", "Time");
    const time = document.createElement("output");
    let timer = null;

    const show = () => {
      const bin = Number(slider.value);
      const when = bin < 0 ? "whole step" : `${plain(bin * width)} to ${plain(Math.min((bin + 1) * width, step))}`;
      time.textContent = bin < 0 ? "Whole step" : `From ${when} of ${plain(step)}`;
      slider.setAttribute("aria-valuetext", when);
      links.forEach(({ percents, strokes, whole, title, said }) => {
        const percent = percents[bin] ?? 0;
        strokes.forEach((each, i) => each.setAttribute("stroke", bin < 0 ? whole[i] : shade(percent)));
        if (title) title.textContent = bin < 0 ? said : `${said}; ${percent} % from ${when}`;
      });
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      button.textContent = "Play";
    };
    const button = armillary.button("Play", () => {
      if (timer !== null) return stop();
      if (Number(slider.value) >= count - 1) slider.value = -1;
      button.textContent = "Pause";
      timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        show();
        if (Number(slider.value) >= count - 1) stop();
      }, PACE);
    }, "Play the load of links over time");
    const all = armillary.button("Whole step", () => {
      stop();
      slider.value = -1;
      show();
    });
    slider.addEventListener("input", () => {
      stop();
      show();
    });
    tools.append(button, slider, time, all);
    figure.append(tools);
    show();
  };

  document.querySelectorAll("figure").forEach((figure) => {
    const drawing = figure.querySelector("[data-step-ns]");
    if (drawing && drawing.querySelector("[data-sends]")) play(figure, drawing);
  });
})();
