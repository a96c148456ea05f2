"use strict";
// Keys to move. Every key follows a link that is on the page, so nothing needs this file.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  if (event.target instanceof HTMLInputElement) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const follow = (rel) => {
    const link = document.querySelector(`link[rel=${rel}], a[rel=${rel}]`);
    if (link) location.assign(link.href);
    return Boolean(link);
  };
  const entries = [...document.querySelectorAll("a.entry, .step > summary")];
  const move = (by) => {
    const next = entries.indexOf(document.activeElement) + by;
    if (entries.length && next >= 0 && next < entries.length) {
      entries[next].focus();
      return true;
    }
    return follow(by > 0 ? "next" : "prev");
  };
  const keys = {
    j: () => move(1), ArrowDown: () => entries.length > 0 && move(1), ArrowRight: () => follow("next"),
    k: () => move(-1), ArrowUp: () => entries.length > 0 && move(-1), ArrowLeft: () => follow("prev"),
    u: () => follow("up"),
    "/": () => {
      if (search) search.focus(); else location.assign("/#search");
      return true;
    },
  };
  if (keys[event.key]?.()) event.preventDefault();
});
if (location.hash === "#search") document.getElementById("search")?.focus();
const steps = document.querySelector(".steps");
const current = steps?.querySelector("[aria-current]");
if (current) steps.scrollTop = current.offsetTop - steps.clientHeight / 2;
