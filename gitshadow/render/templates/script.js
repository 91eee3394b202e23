"use strict";
// Without this script the page is complete, with its turns and files folded. All texts are in the
// HTML: a mark shows which of them is true.
(() => {
  const tools = document.getElementById("tools");
  const box = document.getElementById("search");
  const closed = new Map();
  let found = [];
  let current = -1;

  const all = (selector) => [...document.querySelectorAll(selector)];
  const show = (id, shown) => { document.getElementById(id).hidden = !shown; };

  function* textsOf(unit) {
    const walker = document.createTreeWalker(unit, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) yield walker.currentNode;
  }

  function* matches(unit, words) {
    for (const node of textsOf(unit)) {
      const text = node.data.toLowerCase();
      let at = text.indexOf(words);
      for (; at >= 0; at = text.indexOf(words, at + words.length)) {
        const range = new Range();
        // A few letters get longer in lower case (U+0130).
        range.setStart(node, Math.min(at, node.length));
        range.setEnd(node, Math.min(at + words.length, node.length));
        yield range;
      }
    }
  }

  function unfold(node) {
    for (let one = node.parentElement; one; one = one.parentElement) {
      if (one.tagName !== "DETAILS" || one.open) continue;
      if (!closed.has(one)) closed.set(one, true);
      one.open = true;
    }
  }

  function paint() {
    if (!globalThis.CSS?.highlights) return;
    CSS.highlights.set("found", new Highlight(...found.slice(0, 5000)));
    CSS.highlights.set("current", new Highlight(...found.slice(current, current + 1)));
  }

  function search() {
    for (const one of closed.keys()) one.open = false;
    closed.clear();
    found = [];
    current = -1;
    const words = box.value.trim().toLowerCase();
    for (const unit of all("main .unit")) {
      const here = words ? [...matches(unit, words)] : [];
      unit.hidden = words !== "" && here.length === 0;
      for (const range of here) unfold(range.startContainer);
      found.push(...here);
    }
    document.getElementById("count").textContent = String(found.length);
    show("matches", words !== "");
    paint();
  }

  function go(step) {
    if (!found.length) return;
    current = current < 0 && step < 0 ? found.length - 1 : (current + step + found.length) % found.length;
    const node = found[current].startContainer;
    unfold(node);
    node.parentElement.scrollIntoView({ block: "center" });
    paint();
  }

  function fold(open) {
    closed.clear();
    for (const one of all("main details")) one.open = open;
  }

  let waiting = 0;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    if (event.key !== "Escape") return;
    box.value = "";
    search();
    box.blur();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.activeElement === box) return;
    event.preventDefault();
    box.focus();
  });
  document.getElementById("expand").addEventListener("click", () => fold(true));
  document.getElementById("collapse").addEventListener("click", () => fold(false));
  // A link to something inside a closed part opens that part in every browser.
  document.addEventListener("click", (event) => {
    const name = event.target.closest?.("a[href^='#']")?.getAttribute("href").slice(1);
    const target = name && document.getElementById(name);
    if (!target) return;
    unfold(target.firstChild ?? target);
    if (target.tagName === "DETAILS") target.open = true;
  });
  tools.hidden = false;
})();
