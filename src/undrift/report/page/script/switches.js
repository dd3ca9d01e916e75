// What a reader switches on a page: light and dark, which claims are shown; and the command that is copied.

function switchTheme() {
  const switcher = document.getElementById("theme");
  switcher.hidden = false;
  try { const kept = localStorage.getItem("undrift-theme"); if (kept === "dark" || kept === "light") root.dataset.theme = kept; } catch { /* no storage */ }
  switcher.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("undrift-theme", root.dataset.theme); } catch { /* no storage */ }
    redraw();
  });
  system.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    printing = true;
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    redraw();
  });
  addEventListener("afterprint", () => { printing = false; redraw(); });
}

function copyCommand() {
  const copy = document.getElementById("copy");
  copy?.addEventListener("click", async () => {
    const code = document.getElementById("command");
    try { await navigator.clipboard.writeText(code.textContent); } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    copy.textContent = "copied";
    setTimeout(() => { copy.textContent = "copy"; }, 1500);
  });
}

function filterClaims() {
  const failing = document.getElementById("only-failing");
  failing?.addEventListener("click", () => {
    const on = failing.getAttribute("aria-pressed") !== "true";
    failing.setAttribute("aria-pressed", String(on));
    for (const claim of document.querySelectorAll(".claim.holds")) claim.hidden = on;
  });
}

function framesIn(place) { return [...place.querySelectorAll("[data-figure]")]; }

// A figure in every frame below an element.
function figuresIn(place, given) {
  return framesIn(place).map((frame) => {
    const number = Number(frame.dataset.figure);
    return new Figure(frame, given[number], number);
  });
}
