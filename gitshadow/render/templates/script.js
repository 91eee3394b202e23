"use strict";
// Without this script the page is complete, with its turns and files folded. All texts are in the
// HTML; the script only shows and hides them.
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
        // A few letters get longer in lower case (U+0130).
        const [startOffset, endOffset] = [at, at + words.length].map((end) => Math.min(end, node.length));
        // Thousands of ranges that follow each change of the page would make it slow.
        yield new StaticRange({ startContainer: node, startOffset, endContainer: node, endOffset });
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
      for (const range of here) found.push(range);
    }
    // To open a whole long page takes seconds, at the first letter that somebody types.
    if (found.length <= 2000) for (const range of found) unfold(range.startContainer);
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
  const keyOf = (part) => [
    part.closest("section")?.getAttribute("aria-labelledby"),
    part.parentElement.closest(".step")?.id,
    part.matches(".step")
      ? part.id
      : (part.querySelector("summary .path") ?? part.querySelector("summary")).textContent,
  ].join("\n");

  // Puts a newer page in the place of this one; what is open, and the search, stay.
  function renew(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const one of closed.keys()) one.open = false;
    closed.clear();
    const open = new Map(all("main details").map((one) => [keyOf(one), one.open]));
    const [x, y] = [scrollX, scrollY];
    for (const part of ["header", "main", "footer"]) {
      document.querySelector(`body > ${part}`).replaceWith(fresh.querySelector(`body > ${part}`));
    }
    for (const one of all("main details")) one.open = open.get(keyOf(one)) ?? one.open;
    document.title = fresh.title;
    if (box.value.trim()) search();
    scrollTo(x, y);
  }

  async function watch(tag) {
    for (;;) {
      await new Promise((done) => { setTimeout(done, 2000); });
      // Nobody looks, or somebody copies something.
      if (document.hidden || !getSelection().isCollapsed) continue;
      let running = true;
      try {
        const headers = { "If-None-Match": `"${tag}"` };
        const answer = await fetch(location.href, { headers, cache: "no-store" });
        running = answer.ok || answer.status === 304;
        if (answer.ok) {
          renew(await answer.text());
          tag = answer.headers.get("ETag").replaceAll('"', "");
        }
      } catch {
        running = false;
      }
      show("live", running);
      show("lost", !running);
    }
  }

  const live = document.documentElement.dataset.live;
  if (live) watch(live);
  tools.hidden = false;
})();
