// Charts of lines with bands: on the page, where they can be zoomed and read, and as drawings to save.
//
// A chart is {title, unit, share, axis, references, lines}; a line is {name, colour, dash, points}, and a point
// {x, round, mean, low, high}, where low and high are null if no band is known.

const LETTERS = "12px system-ui, sans-serif";
const isLogarithmic = (lines) => {
  const ends = lines.map(({ points }) => points[points.length - 1].x).filter((x) => x > 0);
  return ends.length > 0 && Math.max(...ends) > 20 * Math.min(...ends);
};

// Points at the same place (no bytes were sent in between) count as their last one.
const inOrder = (points, logarithmic) => {
  const last = new Map(points.filter(({ x }) => !logarithmic || x > 0).map((point) => [point.x, point]));
  return [...last.values()].sort((a, b) => a.x - b.x);
};

const drawChart = (box, chart, readout) => {
  const logarithmic = isLogarithmic(chart.lines), kept = chart.lines.map(({ points }) => inOrder(points, logarithmic));
  const joined = uPlot.join(kept.map((points) => ["x", "mean", "low", "high"].map((key) => points.map((point) => point[key]))));
  const series = [{}], bands = [];
  chart.lines.forEach(({ name, colour, dash, points }, i) => {
    series.push({ label: name, stroke: colour, width: 2, dash, spanGaps: true, points: { show: points.length === 1, size: 9, fill: colour } });
    series.push({ stroke: "transparent", spanGaps: true, points: { show: false } });
    series.push({ stroke: "transparent", spanGaps: true, points: { show: false } });
    bands.push({ series: [3 * i + 3, 3 * i + 2], fill: `${colour}26` });
  });
  // A reference is drawn by hand over the whole width; its series only widens the range of values.
  chart.references.forEach(({ value }) => {
    series.push({ stroke: "transparent", points: { show: false } });
    joined.push(joined[0].map(() => value));
  });
  const drawn = 3 * chart.lines.length;
  return new uPlot({
    width: box.clientWidth,
    height: Math.max(280, Math.min(440, box.clientWidth * 0.55)),
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, points: { show: (u, i) => (i <= drawn && i % 3 === 1 ? undefined : element("div")) } },
    scales: { x: { time: false, distr: logarithmic ? 3 : 1 }, y: { range: valueRange(chart.share) } },
    axes: [
      { ...axisStyle(), label: chart.axis.title + (logarithmic ? ", log scale" : ""), ...(chart.axis.whole ? { incrs: WHOLE } : {}) },
      { ...axisStyle(), size: 60, label: chart.unit, values: valueTicks(chart.share) },
    ],
    series, bands,
    hooks: { setCursor: [(u) => readout(u.cursor.idx === null || u.cursor.idx === undefined ? null : u.data[0][u.cursor.idx])], draw: [(u) => drawReferences(u, chart.references)] },
  }, joined, box);
};

// Dotted lines, for instance of what answering without a model gives. Their names stand at the
// right end, where curves have left them behind; names that would meet stand beside each other.
const placeReferences = (references, heightOf, widthOf, { left, top, width, height }, unit) => {
  const named = [];
  for (const { name, value } of references) {
    const y = heightOf(value);
    if (y < top || y > top + height) continue;
    const near = named.filter((other) => Math.abs(other.y - y) < 16 * unit);
    const x = Math.min(left + width - 6 * unit, ...near.map((other) => other.start - 14 * unit));
    named.push({ name, x, y, start: x - widthOf(name) });
  }
  return named;
};

const drawReferences = (u, references) => {
  const pen = u.ctx, ratio = devicePixelRatio || 1, { left, width } = u.bbox;
  pen.save();
  pen.font = `${12 * ratio}px system-ui, sans-serif`;
  pen.textAlign = "right";
  pen.textBaseline = "alphabetic";
  for (const { name, x, y } of placeReferences(references, (value) => u.valToPos(value, "y", true), (text) => pen.measureText(text).width, u.bbox, ratio)) {
    pen.strokeStyle = css("--muted");
    pen.lineWidth = ratio;
    pen.setLineDash([2 * ratio, 4 * ratio]);
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(left + width, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 4 * ratio;
    pen.strokeStyle = css("--paper"); // a name stays readable where a curve passes
    pen.strokeText(name, x, y - 5 * ratio);
    pen.fillStyle = css("--muted");
    pen.fillText(name, x, y - 5 * ratio);
  }
  pen.restore();
};

// ---- the same chart as an SVG drawing, with its title above and the names of its lines below

const shape = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

const chartDrawing = (u, chart, ends) => {
  const ratio = devicePixelRatio || 1, [left, top, width, height] = ["left", "top", "width", "height"].map((key) => u.bbox[key] / ratio);
  const pen = u.ctx, widthOf = (text) => { pen.save(); pen.font = LETTERS; const { width: wide } = pen.measureText(text); pen.restore(); return wide; };
  const head = 26, x = (value) => left + u.valToPos(value, "x"), y = (value) => head + top + u.valToPos(value, "y"), whole = u.width;
  const drawing = shape("svg", { "font-size": 12, "font-family": "system-ui, sans-serif" });
  const add = (...values) => drawing.append(shape(...values));
  const clip = `plot-${chart.key}`, inside = shape("clipPath", { id: clip });
  inside.append(shape("rect", { x: left, y: head + top, width, height }));
  drawing.append(inside);
  add("text", { x: 8, y: 17, style: "fill: var(--ink); font-weight: 600; font-size: 14px" }, chart.title);
  const [across, up] = u.axes, word = (at) => ({ ...at, style: "fill: var(--muted)" });
  across._splits.forEach((value, i) => {
    if (across._values[i] === null || value < u.scales.x.min || value > u.scales.x.max) return;
    add("line", { x1: x(value), x2: x(value), y1: head + top, y2: head + top + height, style: "stroke: var(--grid)" });
    add("text", word({ x: x(value), y: head + top + height + 18, "text-anchor": "middle" }), across._values[i]);
  });
  up._splits.forEach((value, i) => {
    if (up._values[i] === null || value < u.scales.y.min || value > u.scales.y.max) return;
    add("line", { x1: left, x2: left + width, y1: y(value), y2: y(value), style: "stroke: var(--grid)" });
    add("text", word({ x: left - 8, y: y(value) + 4, "text-anchor": "end" }), up._values[i]);
  });
  add("text", word({ x: left + width / 2, y: head + top + height + 40, "text-anchor": "middle" }), across.label);
  add("text", word({ x: 0, y: 0, "text-anchor": "middle", transform: `translate(16 ${head + top + height / 2}) rotate(-90)` }), up.label);
  const logarithmic = isLogarithmic(chart.lines), round = (value) => Math.round(100 * value) / 100;
  for (const { colour, dash, points } of chart.lines) {
    const kept = inOrder(points, logarithmic), at = (point, key) => `${round(x(point.x))} ${round(y(point[key]))}`;
    const band = kept.filter(({ low }) => low !== null);
    if (band.length > 1) add("path", { d: `M${[...band.map((p) => at(p, "high")), ...band.reverse().map((p) => at(p, "low"))].join("L")}Z`, fill: colour, "fill-opacity": 0.15, "clip-path": `url(#${clip})` });
    if (kept.length === 1) add("circle", { cx: x(kept[0].x), cy: y(kept[0].mean), r: 4, fill: colour });
    else add("path", { d: `M${kept.map((p) => at(p, "mean")).join("L")}`, fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash.join(" "), "clip-path": `url(#${clip})` });
  }
  for (const { name, x: end, y: level } of placeReferences(chart.references, y, widthOf, { left, top: head + top, width, height }, 1)) {
    add("line", { x1: left, x2: left + width, y1: level, y2: level, "stroke-dasharray": "2 4", style: "stroke: var(--muted)" });
    add("text", { x: end, y: level - 5, "text-anchor": "end", "paint-order": "stroke", "stroke-width": 4, style: "fill: var(--muted); stroke: var(--paper)" }, name);
  }
  let [place, line] = [8, head + u.height + 14];
  chart.lines.forEach(({ name, colour, dash }, i) => {
    const words = `${name}${ends[i] ? ` ${ends[i]}` : ""}`, wide = 30 + widthOf(words) + 16;
    if (place > 8 && place + wide > whole) [place, line] = [8, line + 20];
    add("line", { x1: place, x2: place + 22, y1: line - 4, y2: line - 4, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash.join(" ") });
    add("text", { x: place + 28, y: line, style: "fill: var(--ink)" }, words);
    place += wide;
  });
  drawing.setAttribute("viewBox", `0 0 ${whole} ${line + 12}`);
  return drawing;
};
