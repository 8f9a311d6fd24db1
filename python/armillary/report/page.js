// The page around its parts: light or dark, where in the contents the reader is. Without it the page reads all the same.
const armillary = { button: null };

(() => {
  "use strict";

  armillary.button = (label, action, hint = "") => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    if (hint) {
      made.title = hint;
      made.setAttribute("aria-label", hint);
    }
    made.addEventListener("click", action);
    return made;
  };

  // A page opened from a file may be forbidden to keep anything.
  const kept = { get: () => { try { return localStorage.getItem("armillary-theme"); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem("armillary-theme", theme); } catch { /* not kept */ } } };

  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const themeButton = () => {
    const made = armillary.button("", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      kept.set(root.dataset.theme);
      name();
    });
    const name = () => { made.textContent = isDark() ? "Light mode" : "Dark mode"; };
    system.addEventListener("change", name);
    name();
    return made;
  };

  const follow = (links) => {
    const sections = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
    const update = () => {
      const passed = sections.filter((each) => each && each.getBoundingClientRect().top < innerHeight / 3);
      const end = innerHeight + scrollY >= root.scrollHeight - 2;
      const here = end && scrollY > 0 ? sections.at(-1) : passed.at(-1);
      links.forEach((link, i) => {
        if (sections[i] === here) link.setAttribute("aria-current", "location");
        else link.removeAttribute("aria-current");
      });
    };
    addEventListener("scroll", update, { passive: true });
    update();
  };

  const theme = kept.get();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  document.querySelector(".bar").append(themeButton());
  follow([...document.querySelectorAll(".contents a")]);
})();
