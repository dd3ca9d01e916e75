// The page by itself.

switchTheme();
copyCommand();
filterClaims();
figures = figuresIn(document, JSON.parse(document.getElementById("data").textContent).figures);
redraw();
