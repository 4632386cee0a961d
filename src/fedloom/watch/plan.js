// Shows a plan while it works: how far each run is, and the curves of those that have begun. The server sends all of it
// when something has changed; all text is set as text, never as HTML.
(() => {
  const { palette, news: first } = pageData(), MOST_NAMED = 24;
  const ENDED = ["finished", "stopped", "failed"], WHAT = { comparison: "Runs", sweep: "Runs", advice: "Runs so far", audit: "Attacks so far" };
  let plan = first, plot = null, drawn = "";

  const stateOf = (phase) => (phase === "stopped" && plan.kind === "audit" ? "refused" : phase);
  const of = (phase) => plan.members.filter((one) => one.phase === phase).length;
  const labels = () => [...new Set(plan.members.map(({ label }) => label))];
  const colourOf = (label) => palette[labels().indexOf(label) % palette.length];

  const showHead = () => {
    const ended = plan.members.filter(({ phase }) => ENDED.includes(phase)).length, all = plan.members.length, parts = [];
    const isOpen = plan.kind === "advice" || plan.kind === "audit";
    for (const [phase, words] of [["running", "running"], ["finished", "finished"], ["stopped", plan.kind === "audit" ? "refused" : "stopped early"], ["failed", "failed"], ["interrupted", "interrupted"], ["waiting", all === 1 ? "waits" : "wait"]])
      if (of(phase)) parts.push(`${whole(of(phase))} ${words}`);
    if (plan.minutes !== null) parts.push(`a budget of ${long(60 * plan.minutes)}`);
    if (plan.left !== null) parts.push(`about ${long(plan.left)} left`);
    by("title").textContent = plan.title;
    by("phase").textContent = plan.phase;
    by("phase").className = `pill ${plan.phase}`;
    by("state").textContent = parts.join(" · ");
    say("reason", plan.trouble ? "" : plan.reason);
    say("trouble", plan.trouble);
    const share = plan.members.reduce((sum, one) => sum + (ENDED.includes(one.phase) ? 1 : one.rounds ? Math.min(1, (one.round ?? 0) / one.rounds) : 0), 0) / Math.max(1, all);
    by("bar").style.width = `${100 * share}%`;
    by("bar").parentNode.hidden = isOpen;
    by("bar").parentNode.setAttribute("aria-valuemax", all);
    by("bar").parentNode.setAttribute("aria-valuenow", ended);
    document.title = `${MARKS[plan.phase] ?? "!"} ${isOpen ? "" : `${ended}/${all} `}${plan.title}`;
    by("about").textContent = `${plan.folder} · fedloom watch FOLDER/RUN shows one run, fedloom report ${plan.folder} what is measured so far`;
  };

  // ---- the curves, one line per run and one colour per method

  const chartOf = (curve) => {
    const lines = plan.lines.filter(({ metric }) => metric === curve.name).map(({ member, rounds, values }) => {
      const one = plan.members[member];
      const points = rounds.map((round, i) => ({ x: round, round, mean: values[i], low: null, high: null }));
      return { name: `${one.label}, seed ${one.seed}`, label: one.label, colour: colourOf(one.label), dash: ENDED.includes(one.phase) ? [] : [6, 4], points };
    });
    return { title: curve.title, unit: curve.unit, share: curve.is_share, axis: { title: "round", whole: true }, references: [], lines };
  };

  const readout = (chart, x) => {
    const box = by("readout"), names = [...new Set(chart.lines.map(({ label }) => label))].slice(0, MOST_NAMED);
    box.replaceChildren();
    if (x !== null) box.append(element("span", `round ${x}:`, { class: "where" }));
    for (const name of names) {
      const lines = chart.lines.filter(({ label }) => label === name);
      const values = lines.map(({ points }) => points.findLast((point) => x === null || point.x <= x)).filter((point) => point).map(({ mean }) => mean);
      if (!values.length) continue;
      const entry = element("span", null, { class: "entry" }), mark = element("i"), low = Math.min(...values), high = Math.max(...values);
      mark.style.background = lines[0].colour;
      entry.append(mark, element("bdi", name), ` ${shown(low, chart.share)}${high > low ? ` to ${shown(high, chart.share)}` : ""}`);
      box.append(entry);
    }
  };

  const showChart = () => {
    const curves = plan.curves.filter(({ name }) => plan.lines.some(({ metric }) => metric === name));
    by("measured").hidden = !curves.length;
    if (!curves.length) return;
    const before = by("metric").value, titles = curves.map(({ title }) => title);
    if ([...by("metric").options].map(({ textContent }) => textContent).join("\n") !== titles.join("\n"))
      by("metric").replaceChildren(...curves.map(({ name, title }) => element("option", title, { value: name })));
    if (curves.some(({ name }) => name === before)) by("metric").value = before;
    const chart = chartOf(curves.find(({ name }) => name === by("metric").value) ?? curves[0]), state = JSON.stringify(chart);
    if (state === drawn) return;
    drawn = state;
    if (plot) plot.destroy();
    plot = drawChart(by("chart"), chart, (x) => readout(chart, x));
    readout(chart, null);
    const begun = new Set(plan.lines.map(({ member }) => member)).size, more = plan.members.filter(({ round }) => round !== null).length - begun;
    by("chart-note").textContent = `One line per run, one colour per label${labels().length > palette.length ? ` (they repeat after ${palette.length})` : ""}; dashed: not at its end yet. The numbers are the lowest and the highest latest value of its runs.${more > 0 ? ` Drawn are the first ${begun} runs that have begun.` : ""}`;
  };

  // ---- the runs: those that work first, then those that wait, then those at their end, of advice the longest first

  const PLACES = ["running", "failed", "interrupted", "waiting", "finished", "stopped"];
  const order = (a, b) => PLACES.indexOf(a.phase) - PLACES.indexOf(b.phase) || (plan.kind === "advice" ? b.rounds - a.rounds : 0);

  const showMembers = () => {
    const rows = plan.members.map((one, i) => [one, i]).sort(([a, i], [b, j]) => order(a, b) || i - j).map(([one]) => one);
    const curves = plan.curves.slice(0, 2).filter(({ name }) => plan.members.some(({ latest }) => name in latest));
    by("runs").hidden = !rows.length;
    by("runs-title").textContent = WHAT[plan.kind];
    say("runs-note", plan.kind === "advice" ? "Which runs follow depends on the results of these." : "");
    const columns = [
      { title: plan.kind === "audit" ? "Attack" : plan.kind === "sweep" ? "Settings" : "Method", cell: (one) => element("bdi", one.label) },
      { title: "Seed", cell: (one) => String(one.seed) },
      { title: "State", class: "left", cell: (one) => { const state = element("span", stateOf(one.phase), { class: `pill ${one.phase}` }); if (one.reason) state.title = one.reason; return state; } },
      ...(plan.kind === "audit" ? [{ title: "Why", class: "left why", cell: (one) => one.reason }] : [
        { title: "Round", cell: (one) => (one.round === null ? `${whole(one.rounds)} to do` : `${whole(one.round)} of ${whole(one.rounds)}`) },
        ...curves.map((curve, i) => ({ title: i ? "Shared model" : "Clients' models", class: i ? "minor" : "", cell: (one) => shown(one.latest[curve.name], curve.is_share) })),
        { title: "A round", class: "minor", cell: (one) => (one.round_seconds === null ? "–" : long(one.round_seconds)) },
      ]),
    ];
    const head = element("tr");
    for (const column of columns) head.append(element("th", column.title, { class: column.class ?? "" }));
    by("members").tHead.replaceChildren(head);
    by("members").tBodies[0].replaceChildren(...rows.map((row) => {
      const line = element("tr");
      for (const column of columns) {
        const cell = element("td", null, { class: column.class ?? "" });
        cell.append(column.cell(row));
        line.append(cell);
      }
      return line;
    }));
  };

  const show = () => {
    showHead();
    showChart();
    showMembers();
  };

  const source = new EventSource("events");
  source.addEventListener("open", () => (by("lost").hidden = true));
  source.addEventListener("error", () => (by("lost").hidden = false));
  source.addEventListener("plan", (event) => {
    plan = JSON.parse(event.data);
    requestAnimationFrame(show);
  });
  const redraw = () => {
    drawn = "";
    showChart();
  };
  by("metric").addEventListener("change", redraw);
  let width = 0;
  new ResizeObserver(() => {
    if (by("chart").clientWidth !== width) {
      width = by("chart").clientWidth;
      redraw();
    }
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  show();
})();
