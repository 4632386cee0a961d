// Makes a report interactive: curves that can be zoomed and switched, a table of clients that can be sorted and opened,
// and downloads. Everything it shows comes from the JSON in the page; all text is set as text, never as HTML.
(() => {
  "use strict";
  const data = pageData();
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

  // ---- curves

  let plot = null;
  const hidden = new Set();

  const lines = () => {
    const metric = data.metrics[by("metric").value], places = data.axes[by("axis").value].places;
    return data.methods.map((method, place) => {
      const line = metric.lines[place], where = places[place] || {};
      if (!line || hidden.has(place)) return null;
      const points = line.rounds.map((round, i) => [where[round], line.mean[i], line.std ? line.std[i] : null, round]);
      const known = points.filter(([x]) => x !== undefined);
      return known.length ? { method, place, points: known } : null;
    }).filter((line) => line !== null);
  };

  const draw = () => {
    if (plot) plot.destroy();
    const metric = data.metrics[by("metric").value], axis = data.axes[by("axis").value], found = lines();
    by("chart").replaceChildren();
    by("readout").replaceChildren();
    plot = null;
    if (!found.length) {
      by("chart").append(element("p", "Nothing to show: switch a method on, or choose another metric.", { class: "note" }));
      return;
    }
    const ends = found.map(({ points }) => points[points.length - 1][0]).filter((x) => x > 0);
    const logarithmic = ends.length > 0 && Math.max(...ends) > 20 * Math.min(...ends);
    const clip = (value) => (metric.share ? Math.min(1, Math.max(0, value)) : value);
    const tables = found.map(({ points }) => {
      // Points at the same place (no bytes were sent in between) count as their last one.
      const last = new Map(points.filter(([x]) => !logarithmic || x > 0).map((point) => [point[0], point]));
      const kept = [...last.values()].sort((a, b) => a[0] - b[0]);
      const edge = (sign) => kept.map(([, mean, std]) => (std === null ? null : clip(mean + sign * std)));
      return [kept.map((point) => point[0]), kept.map((point) => point[1]), edge(-1), edge(1)];
    });
    const joined = uPlot.join(tables.map((table) => table.map((column) => column)));
    const series = [{}], bands = [];
    found.forEach(({ method, points }, i) => {
      const width = 2, alone = points.length === 1;
      series.push({ label: method.name, stroke: method.colour, width, dash: method.dash, spanGaps: true, points: { show: alone, size: 9, fill: method.colour } });
      series.push({ stroke: "transparent", spanGaps: true, points: { show: false } });
      series.push({ stroke: "transparent", spanGaps: true, points: { show: false } });
      bands.push({ series: [3 * i + 3, 3 * i + 2], fill: `${method.colour}26` });
    });
    // A reference is drawn by hand over the whole width; its series only widens the range of values.
    metric.references.forEach(({ value }) => {
      series.push({ stroke: "transparent", points: { show: false } });
      joined.push(joined[0].map(() => value));
    });
    const methods = 3 * found.length;
    plot = new uPlot({
      width: by("chart").clientWidth,
      height: Math.max(280, Math.min(440, by("chart").clientWidth * 0.55)),
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { show: (u, i) => (i <= methods && i % 3 === 1 ? undefined : element("div")) } },
      scales: { x: { time: false, distr: logarithmic ? 3 : 1 }, y: { range: valueRange(metric.share) } },
      axes: [
        { ...axisStyle(), label: axis.title + (logarithmic ? ", log scale" : ""), ...(axis.whole ? { incrs: WHOLE } : {}) },
        { ...axisStyle(), size: 60, label: metric.unit, values: valueTicks(metric.share) },
      ],
      series, bands,
      hooks: { setCursor: [(u) => readout(u, found, metric, axis)], draw: [(u) => drawReferences(u, metric.references)] },
    }, joined, by("chart"));
    const seeds = Math.max(...found.map(({ method }) => method.seeds));
    by("chart-note").textContent = `${seeds > 1 ? `Mean of up to ${seeds} seeds; band: ± 1 standard deviation over seeds.` : "One seed per method."} Drag to zoom, double-click for the whole range.`;
  };

  // Dotted lines of what answering without a model gives. Their names stand at the
  // right end, where curves have left them behind; names that would meet stand beside each other.
  const drawReferences = (u, references) => {
    const pen = u.ctx, ratio = devicePixelRatio || 1, { left, top, width, height } = u.bbox, named = [];
    pen.save();
    pen.font = `${12 * ratio}px system-ui, sans-serif`;
    pen.textAlign = "right";
    pen.textBaseline = "alphabetic";
    for (const { name, value } of references) {
      const y = u.valToPos(value, "y", true);
      if (y < top || y > top + height) continue;
      pen.strokeStyle = css("--muted");
      pen.lineWidth = ratio;
      pen.setLineDash([2 * ratio, 4 * ratio]);
      pen.beginPath();
      pen.moveTo(left, y);
      pen.lineTo(left + width, y);
      pen.stroke();
      const near = named.filter((other) => Math.abs(other.y - y) < 16 * ratio);
      const x = Math.min(left + width - 6 * ratio, ...near.map((other) => other.start - 14 * ratio));
      named.push({ y, start: x - pen.measureText(name).width });
      pen.setLineDash([]);
      pen.lineWidth = 4 * ratio;
      pen.strokeStyle = css("--paper"); // a name stays readable where a curve passes
      pen.strokeText(name, x, y - 5 * ratio);
      pen.fillStyle = css("--muted");
      pen.fillText(name, x, y - 5 * ratio);
    }
    pen.restore();
  };

  const readout = (u, found, metric, axis) => {
    const box = by("readout"), x = u.cursor.idx === null || u.cursor.idx === undefined ? null : u.data[0][u.cursor.idx];
    box.replaceChildren();
    if (x === null) return;
    const rows = found.map(({ method, points }) => {
      const before = points.filter((point) => point[0] <= x + 1e-9);
      return { method, point: before.length ? before[before.length - 1] : null };
    }).filter(({ point }) => point !== null);
    const better = metric.unit === "loss" || !data.score.higher ? 1 : -1;
    rows.sort((a, b) => better * (a.point[1] - b.point[1]));
    box.append(element("span", `${axis.title}: ${Number(x.toPrecision(6)).toLocaleString("en")}`, { class: "where" }));
    for (const { method, point } of rows) {
      const entry = element("span", null, { class: "entry" }), mark = element("i");
      mark.style.background = method.colour;
      const name = element("bdi", method.name);
      entry.append(mark, name, ` ${shown(point[1], metric.share)}${point[2] === null ? "" : ` ± ${shown(point[2], metric.share)}`}`);
      box.append(entry);
    }
  };

  const curveRows = () => {
    const metric = data.metrics[by("metric").value], axis = data.axes[by("axis").value];
    const rows = [["method", "round", axis.title, metric.title, "standard deviation over seeds"]];
    for (const { method, points } of lines()) for (const [x, mean, std, round] of points) rows.push([method.name, round, x, mean, std]);
    return rows;
  };

  // The chart with its title and the names of its lines, on the page's own background.
  const chartPicture = () => {
    const ratio = devicePixelRatio || 1, source = plot.ctx.canvas, found = lines(), line = 20 * ratio;
    const canvas = element("canvas", null, { width: source.width, height: source.height + line * (found.length + 2) });
    const pen = canvas.getContext("2d");
    pen.fillStyle = css("--paper");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = css("--ink");
    pen.font = `bold ${14 * ratio}px system-ui, sans-serif`;
    pen.fillText(data.metrics[by("metric").value].title, 8 * ratio, line);
    pen.drawImage(source, 0, line * 1.5);
    pen.font = `${13 * ratio}px system-ui, sans-serif`;
    found.forEach(({ method, points }, place) => {
      pen.fillStyle = method.colour;
      const end = points[points.length - 1][1], share = data.metrics[by("metric").value].share;
      pen.fillText(`— ${method.name}: ${shown(end, share)}`, 8 * ratio, source.height + line * (place + 2.2));
    });
    return canvas;
  };

  const startCurves = () => {
    if (!data.metrics.length || !data.axes.length) return;
    options(by("metric"), data.metrics.map((metric) => metric.title));
    options(by("axis"), data.axes.map((axis) => `by ${axis.name}`));
    data.methods.forEach((method, place) => {
      const chip = element("button", null, { type: "button", class: "chip", "aria-pressed": "true" }), mark = element("i");
      mark.style.background = method.colour;
      chip.append(mark, element("bdi", method.name));
      chip.addEventListener("click", () => {
        hidden.has(place) ? hidden.delete(place) : hidden.add(place);
        chip.setAttribute("aria-pressed", String(!hidden.has(place)));
        draw();
      });
      by("methods").append(chip);
    });
    by("metric").addEventListener("change", draw);
    by("axis").addEventListener("change", draw);
    by("whole").addEventListener("click", draw);
    by("curves-csv").addEventListener("click", () => saveCsv(curveRows(), "curves.csv"));
    by("curves-png").addEventListener("click", () => plot && chartPicture().toBlob((blob) => save(blob, "curves.png")));
    document.documentElement.classList.add("interactive");
    draw();
    let width = by("chart").clientWidth;
    new ResizeObserver(() => {
      if (by("chart").clientWidth !== width) {
        width = by("chart").clientWidth;
        draw();
      }
    }).observe(by("chart"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };

  // ---- clients

  const sorting = { column: 0, up: true };

  const columns = () => [
    { title: "Client", value: (row) => row.name, text: (row) => row.name },
    { title: "Training samples", value: (row) => row.train, text: (row) => (row.train ?? "–").toLocaleString("en") },
    { title: "Test samples", value: (row) => row.test, text: (row) => (row.test ?? "–").toLocaleString("en") },
    { title: "Size group", value: (row) => ["small", "intermediate", "big", "new"].indexOf(row.group), text: (row) => row.group ?? "–" },
    ...data.methods.map((method, i) => ({ title: method.name, value: (row) => row.values[i], text: (row) => shown(row.values[i], data.score.share) })),
  ];

  const compare = (a, b) => {
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
    if (b === null || b === undefined) return -1;
    const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    return sorting.up ? order : -order;
  };

  const clientRows = () => {
    const wanted = by("find").value.trim().toLowerCase(), column = columns()[sorting.column];
    const rows = data.seeds[by("seed").value].rows.filter((row) => row.name.toLowerCase().includes(wanted));
    return rows.map((row, i) => [row, i]).sort(([a, i], [b, j]) => compare(column.value(a), column.value(b)) || i - j).map(([row]) => row);
  };

  const bars = (row) => {
    const box = element("div", null, { class: "bars" }), most = Math.max(1, ...row.counts);
    row.counts.forEach((count, label) => {
      if (!count) return;
      const bar = element("span", null, { class: "bar" }), name = data.classes[label] ?? `class ${label}`;
      bar.style.setProperty("--share", count / most);
      bar.append(element("bdi", name), element("b", count.toLocaleString("en")));
      box.append(bar);
    });
    return box;
  };

  const detail = (row) => {
    const box = element("td", null, { colspan: columns().length, class: "detail" });
    const table = element("table"), head = element("tr");
    for (const title of ["Method", data.score.title, "Loss", "Rounds it took part in"]) head.append(element("th", title));
    table.append(head);
    data.methods.forEach((method, i) => {
      const line = element("tr"), rounds = row.rounds[i];
      const when = rounds.length > 12 ? `${rounds.length}: ${rounds.slice(0, 12).join(", ")} …` : rounds.length ? `${rounds.length}: ${rounds.join(", ")}` : "none";
      const name = element("td");
      name.append(element("bdi", method.name));
      line.append(name, element("td", shown(row.values[i], data.score.share)), element("td", shown(row.losses[i], false)), element("td", when));
      table.append(line);
    });
    const wide = element("div", null, { class: "wide" });
    wide.append(table);
    box.append(wide);
    if (row.counts && row.counts.length > 1) box.append(element("p", "Training samples by class", { class: "note" }), bars(row));
    const line = element("tr");
    line.append(box);
    return line;
  };

  const showClients = () => {
    const head = element("tr"), body = by("client-table").tBodies[0];
    columns().forEach((column, place) => {
      const th = element("th", null, { "aria-sort": sorting.column !== place ? "none" : sorting.up ? "ascending" : "descending" });
      const button = element("button", null, { type: "button" });
      button.append(element("bdi", column.title), sorting.column === place ? (sorting.up ? " ▲" : " ▼") : "");
      button.addEventListener("click", () => {
        sorting.up = sorting.column === place ? !sorting.up : true;
        sorting.column = place;
        showClients();
        by("client-table").tHead.rows[0].cells[place].firstChild.focus();
      });
      th.append(button);
      head.append(th);
    });
    by("client-table").tHead.replaceChildren(head);
    const rows = clientRows();
    body.replaceChildren(...rows.map((row) => {
      const line = element("tr");
      columns().forEach((column, place) => {
        const td = element("td");
        if (place === 0) {
          const open = element("button", null, { type: "button", "aria-expanded": "false", class: "open" });
          open.append(element("bdi", column.text(row)));
          open.addEventListener("click", () => {
            const shut = open.getAttribute("aria-expanded") === "true";
            open.setAttribute("aria-expanded", String(!shut));
            shut ? line.nextSibling.remove() : line.after(detail(row));
          });
          td.append(open);
        } else td.textContent = column.text(row);
        line.append(td);
      });
      return line;
    }));
    const table = data.seeds[by("seed").value];
    by("client-note").textContent = `${rows.length.toLocaleString("en")} of ${table.all.toLocaleString("en")} clients: ${data.score.title} of each client's model on its own test set at the end. Choose a heading to sort, a client for details.`;
  };

  const startClients = () => {
    if (!data.seeds.length) return;
    options(by("seed"), data.seeds.map((table) => (table.seed ? `seed ${table.seed}` : "all runs")));
    by("seed").addEventListener("change", showClients);
    by("find").addEventListener("input", showClients);
    by("clients-csv").addEventListener("click", () =>
      saveCsv([columns().map((column) => column.title), ...clientRows().map((row) => [row.name, row.train, row.test, row.group, ...row.values])], "clients.csv"));
    by("clients").hidden = false;
    showClients();
  };

  // ---- figures: each SVG can be saved as a picture

  const savePicture = (figure) => {
    const drawn = figure.querySelector("svg").cloneNode(true), box = figure.querySelector("svg").viewBox.baseVal, scale = 2;
    for (const name of ["--ink", "--muted", "--grid", "--paper"]) drawn.style.setProperty(name, css(name));
    drawn.querySelectorAll("text").forEach((text) => (text.style.fontFamily = "system-ui, sans-serif"));
    drawn.setAttribute("width", box.width * scale);
    drawn.setAttribute("height", box.height * scale);
    const image = new Image();
    image.onload = () => {
      const canvas = element("canvas", null, { width: box.width * scale, height: box.height * scale }), pen = canvas.getContext("2d");
      pen.fillStyle = css("--paper");
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${figure.dataset.name}.png`));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawn))}`;
  };

  document.querySelectorAll("figure[data-name]").forEach((figure) => {
    const button = element("button", "PNG", { type: "button", class: "save", title: "Save this figure as a PNG" });
    button.addEventListener("click", () => savePicture(figure));
    figure.append(button);
  });

  startCurves();
  startClients();
})();
