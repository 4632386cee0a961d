// The curves of a report: which runs are shown, what a line is the mean of, and the difference of two lines. Everything
// comes from the JSON in the page; all text is set as text, never as HTML.
(() => {
  const data = pageData();
  if (!data.metrics.length || !data.axes.length) return;
  const METHOD = "method", SETTINGS = "settings", RUN = "run", WORDS = { class: "left" };
  const settings = data.columns.slice(2), filters = data.columns.map(() => ""), hidden = new Set(), left_out = new Set();
  const sorting = { column: null, up: true };
  let plot = null, chart = null, gapPlot = null, gapChart = null;

  const metric = () => data.metrics[by("metric").value];
  const axis = () => data.axes[by("axis").value];

  // ---- which runs, and which lines

  const isShown = (run, i) => !left_out.has(i) && filters.every((value, column) => value === "" || run.columns[column] === value);

  const nameOf = (run) => {
    const [method, seed, ...values] = run.columns, named = values.map((value, i) => `${settings[i]}=${value}`);
    const kind = by("split").value, setting = settings.indexOf(kind);
    if (kind === METHOD) return method;
    return [method, ...(setting >= 0 ? [named[setting]] : named), ...(kind === RUN ? [`seed ${seed}`] : [])].join(", ");
  };

  // Every line has its look from its place among all of them, so that a filter changes no colour.
  const groups = () => {
    const found = new Map();
    data.runs.forEach((run, i) => {
      const name = nameOf(run);
      if (!found.has(name)) found.set(name, { name, runs: [] });
      found.get(name).runs.push(i);
    });
    return [...found.values()].map((group, place) => ({ ...group, ...data.styles[place % data.styles.length], runs: group.runs.filter((i) => isShown(data.runs[i], i)) })).filter(({ runs }) => runs.length);
  };

  const valueAt = (run, round) => {
    const line = metric().lines[run], place = line ? line.rounds.indexOf(round) : -1;
    return place < 0 ? null : line.values[place];
  };

  // The last value, with early stopping that of the round that the run ended with.
  const lastValue = (run) => {
    const line = metric().lines[run];
    if (!line) return null;
    const place = line.rounds.findLastIndex((round) => round <= data.runs[run].final);
    return place < 0 ? null : line.values[place];
  };

  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const deviation = (values) => {
    const middle = mean(values);
    return values.length < 2 ? null : Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
  };

  // A mean is over the rounds that all runs of a line have measured.
  const pointsOf = (runs) => {
    const { lines, share } = metric(), { places } = axis();
    const known = runs.filter((i) => lines[i] && Object.keys(places[i]).length);
    if (!known.length) return [];
    const tables = known.map((i) => new Map(lines[i].rounds.map((round, place) => [round, lines[i].values[place]])));
    const rounds = [...tables[0].keys()].filter((round) => tables.every((table) => table.has(round)) && known.every((i) => round in places[i]));
    const clip = (value) => (share ? Math.min(1, Math.max(0, value)) : value);
    return rounds.map((round) => {
      const values = tables.map((table) => table.get(round)), middle = mean(values), std = deviation(values);
      const [low, high] = std === null ? [null, null] : [clip(middle - std), clip(middle + std)];
      return { x: mean(known.map((i) => places[i][round])), round, mean: middle, std, low, high };
    });
  };

  const shownLines = () =>
    groups().filter(({ name }) => !hidden.has(name)).map((group) => ({ ...group, points: pointsOf(group.runs) })).filter(({ points }) => points.length);

  // ---- the chart

  const valueText = ({ mean: middle, std }, share) => `${shown(middle, share)}${std === null ? "" : ` ± ${shown(std, share)}`}`;

  const readout = (x) => {
    const box = by("readout");
    box.replaceChildren();
    if (x === null) return;
    const rows = chart.lines.map((line) => ({ line, point: line.points.findLast((point) => point.x <= x + 1e-9) })).filter(({ point }) => point);
    const better = metric().unit === "loss" || !data.score.higher ? 1 : -1;
    rows.sort((a, b) => better * (a.point.mean - b.point.mean));
    box.append(element("span", `${axis().title}: ${Number(x.toPrecision(6)).toLocaleString("en")}`, { class: "where" }));
    for (const { line, point } of rows) {
      const entry = element("span", null, { class: "entry" }), mark = element("i");
      mark.style.background = line.colour;
      entry.append(mark, element("bdi", line.name), ` ${valueText(point, metric().share)}`);
      box.append(entry);
    }
  };

  const draw = () => {
    if (plot) plot.destroy();
    [plot, chart] = [null, null];
    const { title, unit, share, references } = metric(), lines = shownLines();
    by("chart").replaceChildren();
    by("readout").replaceChildren();
    by("chart-note").textContent = "";
    if (lines.length) {
      chart = { key: "curves", title: `${title}, ${data.task}`, unit, share, axis: axis(), references, lines };
      plot = drawChart(by("chart"), chart, readout);
      const most = Math.max(...lines.map(({ runs }) => runs.length));
      by("chart-note").textContent = `${most > 1 ? `Mean of up to ${most} ${by("split").value === METHOD && settings.length ? "runs" : "seeds"}; band: ± 1 standard deviation over them.` : "One run per line."} Drag to zoom, double-click for the whole range.`;
    } else by("chart").append(element("p", "Nothing to show: switch a line on, choose another metric, or filter less.", { class: "note" }));
    showDifference();
  };

  const showChips = () => {
    by("methods").replaceChildren(...groups().map(({ name, colour }) => {
      const chip = element("button", null, { type: "button", class: "chip", "aria-pressed": String(!hidden.has(name)) }), mark = element("i");
      mark.style.background = colour;
      chip.append(mark, element("bdi", name));
      chip.addEventListener("click", () => {
        hidden.has(name) ? hidden.delete(name) : hidden.add(name);
        chip.setAttribute("aria-pressed", String(!hidden.has(name)));
        draw();
      });
      return chip;
    }));
  };

  // ---- the difference of two lines, seed by seed

  // What both lines have of a seed is compared; several runs of a seed in a line count as their mean.
  const differences = (first, second, valueOf) => {
    const bySeed = ({ runs }) => {
      const found = new Map();
      for (const i of runs) {
        const value = valueOf(i), seed = data.runs[i].columns[1];
        if (value !== null) found.set(seed, [...(found.get(seed) ?? []), value]);
      }
      return found;
    };
    const [ours, theirs] = [bySeed(first), bySeed(second)];
    return [...ours.keys()].filter((seed) => theirs.has(seed)).map((seed) => mean(ours.get(seed)) - mean(theirs.get(seed)));
  };

  // Student's interval for the mean of paired differences; its quantiles are in the page.
  const interval = (found) => {
    const middle = mean(found), std = deviation(found);
    const half = std === null ? null : (data.quantiles[found.length - 1] * std) / Math.sqrt(found.length);
    return { mean: middle, low: half === null ? null : middle - half, high: half === null ? null : middle + half };
  };

  const gapText = (value) => {
    const points = metric().share ? 100 * value : value, digits = metric().share ? points.toFixed(1) : String(Number(points.toPrecision(3)));
    return `${points > 0 ? "+" : ""}${digits.replace("-", "−")}`;
  };

  const differenceText = (found, gap) => {
    const unit = metric().share ? " points" : "", which = `${by("first").selectedOptions[0].textContent} minus ${by("second").selectedOptions[0].textContent}`;
    const head = `${which}: ${gapText(gap.mean)}${unit}`;
    if (gap.low === null) return `${head}, in the one seed that both have: no interval.`;
    const sure = found.length < data.least ? "two seeds establish nothing" : gap.low > 0 || gap.high < 0 ? "the interval leaves out 0" : "the interval has 0 in it: not told apart";
    return `${head}, 95 % interval ${gapText(gap.low)} to ${gapText(gap.high)} (paired over ${found.length} seeds); ${sure}.`;
  };

  const drawGap = (first, second) => {
    const rounds = [...new Set([...first.runs, ...second.runs].flatMap((i) => metric().lines[i]?.rounds ?? []))].sort((a, b) => a - b);
    const points = rounds.map((round) => [round, differences(first, second, (i) => valueAt(i, round))]).filter(([, found]) => found.length);
    const most = Math.max(0, ...points.map(([, found]) => found.length));
    const kept = points.filter(([, found]) => found.length === most).map(([round, found]) => ({ x: round, round, ...interval(found), std: null }));
    if (!kept.length) return;
    const unit = metric().share ? "points" : metric().unit, name = `${first.name} minus ${second.name}`;
    gapChart = { key: "difference", title: `${name}: ${metric().title}`, unit, share: metric().share, axis: { title: "round", whole: true }, references: [{ name: "no difference", value: 0 }], lines: [{ name, colour: first.colour, dash: [], points: kept }] };
    gapPlot = drawChart(by("gap-chart"), gapChart, (x) => {
      const point = x === null ? undefined : kept.findLast((one) => one.x <= x);
      by("gap-readout").textContent = point ? `round ${point.round}: ${gapText(point.mean)}${point.low === null ? "" : ` (${gapText(point.low)} to ${gapText(point.high)})`}` : "";
    });
  };

  const showDifference = () => {
    if (gapPlot) gapPlot.destroy();
    [gapPlot, gapChart] = [null, null];
    by("gap-chart").replaceChildren();
    by("gap-readout").textContent = "";
    const all = groups();
    by("compare").hidden = all.length < 2;
    if (all.length < 2) return;
    ["first", "second"].forEach((id, place) => {
      const before = by(id).selectedOptions[0]?.textContent, still = all.findIndex(({ name }) => name === before);
      by(id).replaceChildren();
      options(by(id), all.map(({ name }) => name));
      by(id).value = still >= 0 ? still : place;
    });
    const [first, second] = [all[by("first").value], all[by("second").value]], said = by("difference");
    const found = differences(first, second, lastValue);
    delete said.dataset.gap;
    if (first === second) said.textContent = "Choose two different lines.";
    else if (!found.length) said.textContent = "These two have no seed in common with this metric.";
    else {
      const gap = interval(found);
      Object.assign(said.dataset, { gap: gap.mean, low: gap.low, high: gap.high });
      said.textContent = differenceText(found, gap);
      drawGap(first, second);
    }
  };

  // ---- the runs

  const lastPlace = (name, run) => {
    const found = data.axes.find((one) => one.name === name), places = found ? Object.values(found.places[run]) : [];
    return places.length ? Math.max(...places) : null;
  };
  const number = (value) => (value === null ? "–" : Number(value.toPrecision(4)).toLocaleString("en"));
  const columns = () => [
    ...data.columns.map((title, i) => ({ title: i > 1 ? title : title[0].toUpperCase() + title.slice(1), value: (run) => data.runs[run].columns[i], text: (value) => value, kind: i ? {} : WORDS })),
    { title: "Value at the end", value: lastValue, text: (value) => shown(value, metric().share) },
    { title: "Rounds", value: (run) => lastPlace("round", run), text: number },
    { title: "MB", value: (run) => lastPlace("megabytes", run), text: number },
    { title: "Local steps", value: (run) => lastPlace("local steps", run), text: number },
    { title: "Folder", value: (run) => data.runs[run].folder, text: (value) => value || "–", kind: WORDS },
  ];

  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const [x, y] = [Number(a), Number(b)], order = a === "" || b === "" || Number.isNaN(x) || Number.isNaN(y) ? String(a).localeCompare(String(b), undefined, { numeric: true }) : x - y;
    return sorting.up ? order : -order;
  };

  const shownRuns = () => {
    const found = data.runs.map((_, i) => i).filter((i) => filters.every((value, column) => value === "" || data.runs[i].columns[column] === value));
    if (sorting.column === null) return found;
    const { value } = columns()[sorting.column];
    return found.sort((a, b) => compare(value(a), value(b)) || a - b);
  };

  const showRuns = () => {
    const head = element("tr"), all = columns(), rows = shownRuns();
    head.append(element("th", "Show"));
    all.forEach(({ title, kind = {} }, place) => {
      const th = element("th", null, { ...kind, "aria-sort": sorting.column !== place ? "none" : sorting.up ? "ascending" : "descending" }), button = element("button", null, { type: "button" });
      button.append(element("bdi", title), sorting.column === place ? (sorting.up ? " ▲" : " ▼") : "");
      button.addEventListener("click", () => {
        sorting.up = sorting.column === place ? !sorting.up : true;
        sorting.column = place;
        showRuns();
        by("run-table").tHead.rows[0].cells[place + 1].firstChild.focus();
      });
      th.append(button);
      head.append(th);
    });
    by("run-table").tHead.replaceChildren(head);
    by("run-table").tBodies[0].replaceChildren(...rows.map((i) => {
      const line = element("tr"), first = element("td"), box = element("input", null, { type: "checkbox", "aria-label": `show ${data.runs[i].columns.slice(0, 2).join(" seed ")}` });
      box.checked = !left_out.has(i);
      box.addEventListener("change", () => {
        box.checked ? left_out.delete(i) : left_out.add(i);
        showChips();
        draw();
      });
      first.append(box);
      line.append(first, ...all.map(({ value, text, kind = {} }) => {
        const td = element("td", null, kind);
        td.append(element("bdi", text(value(i))));
        return td;
      }));
      return line;
    }));
    const ended = rows.filter((i) => data.runs[i].stopped).length;
    by("run-note").textContent = `${rows.length} of ${data.runs.length} runs${ended ? `, ${ended} of them stopped early` : ""}. Choose a heading to sort; a box that is not ticked leaves its run out of the curves.`;
  };

  const startFilters = () => {
    data.columns.forEach((title, column) => {
      const values = [...new Set(data.runs.map((run) => run.columns[column]))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
      if (values.length < 2) return;
      const label = element("label", `${title} `), select = element("select", null, { "data-column": title });
      select.append(element("option", "all", { value: "" }), ...values.map((value) => element("option", value, { value })));
      select.addEventListener("change", () => {
        filters[column] = select.value;
        show();
      });
      label.append(select);
      by("filters").append(label);
    });
    by("runs-csv").addEventListener("click", () => saveCsv([columns().map(({ title }) => title), ...shownRuns().map((i) => columns().map(({ value }) => value(i)))], "runs.csv"));
    by("run-list").hidden = data.runs.length < 2;
  };

  // ---- saving

  const curveRows = () => {
    const rows = [["method", "round", axis().title, metric().title, "standard deviation over seeds"]], digits = (value) => (value === null ? null : Number(value.toPrecision(6)));
    for (const { name, points } of chart?.lines ?? []) for (const { x, round, mean: middle, std } of points) rows.push([name, round, x, digits(middle), digits(std)]);
    return rows;
  };
  const curveDrawing = () => chartDrawing(plot, chart, chart.lines.map(({ points }) => valueText(points[points.length - 1], chart.share)));
  const gapDrawing = () => chartDrawing(gapPlot, gapChart, [""]);

  const startSaving = () => {
    by("curves-csv").addEventListener("click", () => saveCsv(curveRows(), "curves.csv"));
    const acts = { png: savePng, svg: saveSvg, pdf: (drawing) => printDrawings([drawing]) };
    for (const [format, act] of Object.entries(acts)) {
      by(`curves-${format}`).addEventListener("click", () => plot && act(curveDrawing(), "curves"));
      by(`gap-${format}`).addEventListener("click", () => gapPlot && act(gapDrawing(), "difference"));
    }
    by("all-pdf").addEventListener("click", () => {
      const figures = [...document.querySelectorAll("figure[data-name] svg")].filter((drawn) => drawn.getClientRects().length);
      printDrawings([...(plot ? [curveDrawing()] : []), ...(gapPlot ? [gapDrawing()] : []), ...figures]);
    });
  };

  // ---- start

  const show = () => {
    showChips();
    showRuns();
    draw();
  };

  options(by("metric"), data.metrics.map(({ title }) => title));
  options(by("axis"), data.axes.map(({ name }) => `by ${name}`));
  const splits = [[METHOD, "method"], ...(settings.length ? [[SETTINGS, "method and settings"]] : []), ...(settings.length > 1 ? settings.map((key) => [key, `method and ${key}`]) : []), [RUN, "run"]];
  by("split").append(...splits.map(([value, title]) => element("option", `a line per ${title}`, { value })));
  if (settings.length) by("split").value = SETTINGS;
  startFilters();
  startSaving();
  for (const id of ["metric", "axis", "split"]) by(id).addEventListener("change", show);
  for (const id of ["first", "second"]) by(id).addEventListener("change", showDifference);
  by("whole").addEventListener("click", draw);
  document.documentElement.classList.add("interactive");
  show();
  let width = by("chart").clientWidth;
  new ResizeObserver(() => {
    if (by("chart").clientWidth !== width) {
      width = by("chart").clientWidth;
      draw();
    }
  }).observe(by("chart"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
