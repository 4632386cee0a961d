// What a page can give away: tables as CSV, and drawings as PNG, SVG or PDF, all from what is in the page.

const options = (select, titles) => titles.forEach((title, place) => select.append(element("option", title, { value: place })));

const save = (blob, name) => {
  const link = element("a", null, { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// A cell that begins like a formula would be run by a spreadsheet: it gets a quote in front.
const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
const saveCsv = (rows, name) => save(new Blob(["\ufeff", rows.map((row) => row.map(cell).join(",")).join("\r\n"), "\r\n"], { type: "text/csv" }), name);

// Colours that a drawing takes from its page. On paper they are those of the light page, whatever the screen has.
const COLOURS = ["--ink", "--muted", "--grid", "--paper"];
const onScreen = (name) => css(name);
const onPaper = (name) => document.styleSheets[0].cssRules[0].style.getPropertyValue(name).trim();

const alone = (drawing, colour) => {
  const copy = drawing.cloneNode(true), box = drawing.viewBox.baseVal;
  for (const name of COLOURS) copy.style.setProperty(name, colour(name));
  copy.querySelectorAll("text").forEach((text) => (text.style.fontFamily = "system-ui, sans-serif"));
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  return copy;
};
// Colours are written out, since few programs but browsers know variables.
const textOf = (drawing, colour) => COLOURS.reduce((text, name) => text.replaceAll(`var(${name})`, colour(name)), new XMLSerializer().serializeToString(drawing));

const saveSvg = (drawing, name) => save(new Blob([textOf(alone(drawing, onPaper), onPaper)], { type: "image/svg+xml" }), `${name}.svg`);

const savePng = (drawing, name) => {
  const box = drawing.viewBox.baseVal, scale = 2, copy = alone(drawing, onScreen);
  copy.setAttribute("width", box.width * scale);
  copy.setAttribute("height", box.height * scale);
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", null, { width: box.width * scale, height: box.height * scale }), pen = canvas.getContext("2d");
    pen.fillStyle = css("--paper");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, `${name}.png`));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(copy, onScreen))}`;
};

// A browser writes PDF when it prints: the drawings alone are printed, each on a page of its own size.
const printDrawings = (drawings) => {
  const sheets = element("div", null, { id: "sheets" });
  const sizes = drawings.map((drawing, place) => {
    const { width, height } = drawing.viewBox.baseVal, sheet = element("div");
    sheet.style.page = `figure-${place}`;
    sheet.append(alone(drawing, onPaper));
    sheets.append(sheet);
    return `@page figure-${place} { size: ${Math.ceil(width) + 2}px ${Math.ceil(height) + 2}px; margin: 0; }`;
  });
  sheets.append(element("style", sizes.join("\n")));
  const done = () => {
    sheets.remove();
    document.documentElement.classList.remove("figures-only");
  };
  addEventListener("afterprint", done, { once: true });
  document.body.append(sheets);
  document.documentElement.classList.add("figures-only");
  print();
};

const saveButtons = (drawing, name) =>
  [["PNG", () => savePng(drawing(), name)], ["SVG", () => saveSvg(drawing(), name)], ["PDF", () => printDrawings([drawing()])]].map(([format, act]) => {
    const button = element("button", format, { type: "button", class: `save ${format.toLowerCase()}`, title: `Save this figure as ${format}` });
    button.addEventListener("click", act);
    return button;
  });

document.querySelectorAll("figure[data-name]").forEach((figure) => {
  const box = element("div", null, { class: "saves" });
  box.append(...saveButtons(() => figure.querySelector("svg"), figure.dataset.name));
  figure.append(box);
});
