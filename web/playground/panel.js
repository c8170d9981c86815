// The controls beside the conversation: three tabs; over it where there is no room beside it.

const by = (id) => document.getElementById(id);
const names = ["server", "settings", "form"];

export function panel() {
  const tabs = names.map((name) => by(`tab-${name}`));
  const wide = matchMedia("(min-width: 1080px)");

  function choose(name) {
    for (const each of names) {
      by(each).hidden = each !== name;
      by(`tab-${each}`).setAttribute("aria-selected", each === name);
      by(`tab-${each}`).tabIndex = each === name ? 0 : -1;
    }
  }

  function show(open) {
    document.body.classList.toggle("with-panel", open);
    by("panel").hidden = !open;
    by("panel-button").setAttribute("aria-expanded", open);
    const covered = open && !wide.matches; // what lies under the controls is not to be reached
    for (const part of document.querySelectorAll("main, .bar")) part.inert = covered;
  }

  function close() {
    show(false);
    by("panel-button").focus();
  }

  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(names[i]));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (i + step + names.length) % names.length;
      choose(names[next]);
      tabs[next].focus();
    });
  });
  by("panel-button").addEventListener("click", () => {
    const open = by("panel").hidden;
    show(open);
    if (open) tabs.find((tab) => tab.tabIndex === 0).focus();
  });
  by("panel-close").addEventListener("click", close);
  wide.addEventListener("change", () => show(wide.matches));
  choose("server");
  show(wide.matches);

  return {
    open: (name) => {
      choose(name);
      show(true);
    },
    // Whether there was something to close.
    closeOverlay: () => {
      if (wide.matches || by("panel").hidden) return false;
      close();
      return true;
    },
  };
}
