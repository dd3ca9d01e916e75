// The page by itself.

switchTheme();
copyCommand();
filterClaims();
const given = JSON.parse(document.getElementById("data").textContent);
figures = figuresIn(document, given.figures);
lanesIn(document.querySelector("[data-lanes]"), given.presence);
redraw();
