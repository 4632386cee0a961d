// Shows a run while it works. The server sends the status when it changes, the rounds that are new, and the ends of the
// logs; all text is set as text, never as HTML. Drawing is done at most once per frame, however many events arrive.
(() => {
  const data = pageData();
  const MOST_ROUNDS = 100, MOST_LEFT_OUT = 200, RECENT_LEFT_OUT = 2000, FEW_DAYS = 30;
  let status = data.status, ahead = data.now - Date.now() / 1000, logs = {};
  const all = { round: [], up: [], down: [], selected: [], seconds: [], metrics: {}, left: [] };

  const now = () => Date.now() / 1000 + ahead;
  const ago = (moment) => (now() - moment < 5 ? "just now" : `${long(Math.max(0, now() - moment))} ago`);

  // ---- the head: how far it is

  const stateWords = () => {
    const of = status.rounds === null ? "" : ` of ${whole(status.rounds)}`;
    if (status.kind === "site") return status.last_record ? `last written ${ago(status.last_record)}` : "";
    const words = [];
    if (status.round !== null) words.push(`round ${whole(status.round)}${of}`);
    else if (status.rounds !== null) words.push(`${whole(status.rounds)} rounds`);
    if (status.phase === "running" && status.round_seconds !== null && status.rounds > status.round)
      words.push(`about ${long(status.round_seconds * (status.rounds - status.round))} left`);
    if (status.last_record !== null) words.push(`last round ended ${ago(status.last_record)}`);
    return words.join(" · ");
  };

  const showHead = () => {
    by("title").textContent = status.title;
    by("phase").textContent = status.phase;
    by("phase").className = `pill ${status.phase}`;
    by("state").textContent = stateWords();
    say("reason", status.trouble ? "" : status.reason);
    say("trouble", [status.trouble, ...status.warnings, ...status.notes].filter((text) => text).join(" · "));
    const share = status.rounds && status.round !== null ? Math.min(1, status.round / status.rounds) : 0;
    by("bar").style.width = `${100 * share}%`;
    by("bar").parentNode.hidden = status.rounds === null;
    by("bar").parentNode.setAttribute("aria-valuemax", status.rounds ?? 0);
    by("bar").parentNode.setAttribute("aria-valuenow", status.round ?? 0);
    const mark = MARKS[status.phase] ?? "!";
    document.title = `${mark} ${status.round === null || status.kind === "site" ? "" : `${status.round}${status.rounds === null ? "" : `/${status.rounds}`} `}${status.title}`;
  };

  const card = (what, number, over) => {
    const box = element("div", null, { class: "card" });
    box.append(element("span", what, { class: "what" }), element("b", number), element("span", over));
    return box;
  };

  const showCards = () => {
    const cards = status.curves.filter((curve) => curve.name in status.latest).slice(0, 2).map((curve) => {
      const [head, ...rest] = curve.title.split(", ");
      return card(head, shown(status.latest[curve.name], curve.is_share), rest.join(", "));
    });
    if (status.kind !== "site" && status.records) {
      cards.push(card("Traffic", size(status.bytes_up + status.bytes_down), `${size(status.bytes_up)} up, ${size(status.bytes_down)} down`));
      if (status.round_seconds !== null) cards.push(card("A round", long(status.round_seconds), "median of the last ones"));
    }
    if (status.kind === "server") {
      const there = status.participants.filter((one) => one.connected).length;
      cards.push(card("Sites", `${there} of ${status.clients}`, "connected"));
    }
    if (all.left.length) cards.push(card("Left out", whole(all.left.length), "answers so far"));
    const days = Object.entries(status.certificates).sort((a, b) => a[1] - b[1])[0];
    if (days && days[1] < 2 * FEW_DAYS) cards.push(card("Certificates", days[1] < 0 ? "expired" : `${days[1]} days`, `that of ${days[0]} ends first`));
    by("cards").replaceChildren(...cards);
  };

  // ---- charts: one per unit, one for bytes, one for seconds

  const charts = new Map();
  const keyOf = (wish) => (wish.overlaps ? wish.title : wish.unit); // the unit of bytes grows with them

  const wanted = () => {
    const units = new Map();
    for (const curve of status.curves) {
      const values = all.metrics[curve.name];
      if (!values || !values.some((value) => value !== null)) continue;
      if (!units.has(curve.unit)) units.set(curve.unit, { title: curve.title.split(", ")[0], share: curve.is_share, unit: curve.unit, lines: [] });
      units.get(curve.unit).lines.push({ name: curve.title.split(", ").slice(1).join(", "), values });
    }
    const found = [...units.values()];
    const most = [...all.up, ...all.down].reduce((a, b) => Math.max(a, b), 0), [unit, factor] = unitOf(most);
    const scaled = (bytes) => bytes.map((count) => count / factor);
    if (most)
      found.push({ title: "Bytes on the wire", unit: `${unit} per round`, text: (value) => size(value * factor), overlaps: true, lines: [{ name: "up, from clients", values: scaled(all.up) }, { name: "down, to clients", values: scaled(all.down) }] });
    if (all.seconds.some((value) => value !== null)) found.push({ title: "Time", unit: "seconds per round", text: long, lines: [{ name: "a round", values: all.seconds }] });
    return found;
  };

  const legend = (chart, at) => {
    const { wish, box } = chart, place = at ?? all.round.length - 1;
    const entries = wish.lines.map((line, i) => {
      let last = place;
      while (at === null && last > 0 && (line.values[last] ?? null) === null) last -= 1;
      const entry = element("span"), mark = element("i");
      mark.style.background = data.palette[i % data.palette.length];
      entry.append(mark, `${line.name} `, element("b", wish.text && (line.values[last] ?? null) !== null ? wish.text(line.values[last]) : shown(line.values[last] ?? null, wish.share)));
      return entry;
    });
    if (at !== null) entries.unshift(element("span", `round ${all.round[at]}:`));
    box.querySelector(".legend").replaceChildren(...entries);
  };

  const draw = (chart) => {
    const room = chart.box.querySelector(".box"), { wish } = chart;
    if (chart.plot) chart.plot.destroy();
    chart.plot = new uPlot({
      width: room.clientWidth, height: Math.round(Math.max(190, Math.min(260, room.clientWidth * 0.5))),
      legend: { show: false }, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: valueRange(wish.share) } },
      axes: [{ ...axisStyle(), incrs: WHOLE }, { ...axisStyle(), size: 56, label: wish.unit, values: valueTicks(wish.share) }],
      series: [{}, ...wish.lines.map((line, i) => ({ label: line.name, stroke: data.palette[i % data.palette.length], dash: wish.overlaps && i ? [6, 6] : [], width: 2, spanGaps: true, points: { show: all.round.length === 1 } }))],
      hooks: { setCursor: [(u) => legend(chart, u.cursor.idx ?? null)] },
    }, [all.round, ...wish.lines.map((line) => line.values)], room);
  };

  const showCharts = () => {
    const wishes = wanted();
    by("measured").hidden = !wishes.length;
    for (const [key, chart] of charts) if (!wishes.some((wish) => keyOf(wish) === key)) {
      chart.box.remove();
      charts.delete(key);
    }
    for (const wish of wishes) {
      let chart = charts.get(keyOf(wish));
      const same = chart && chart.plot && chart.wish.lines.length === wish.lines.length && chart.wish.unit === wish.unit && chart.points === (all.round.length === 1);
      if (!chart) {
        const box = element("div", null, { class: "chart" });
        box.append(element("h3", wish.title), element("div", null, { class: "box" }), element("div", null, { class: "legend" }));
        by("charts").append(box);
        charts.set(keyOf(wish), (chart = { box }));
      }
      chart.wish = wish;
      chart.points = all.round.length === 1;
      if (same) chart.plot.setData([all.round, ...wish.lines.map((line) => line.values)]);
      else draw(chart);
      legend(chart, null);
    }
  };

  // ---- tables

  const fill = (id, columns, rows) => {
    const head = element("tr"), table = by(id);
    for (const column of columns) head.append(element("th", column.title, { class: column.class ?? "" }));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...rows.map((row) => {
      const line = element("tr");
      for (const column of columns) {
        const cell = element("td", null, { class: `${column.class ?? ""}${column.warn && column.warn(row) ? " soon" : ""}` });
        cell.append(...[column.cell(row)].flat());
        line.append(cell);
      }
      return line;
    }));
  };

  const siteState = (one) => {
    if (one.trouble) return [element("i", null, { class: "dot refused" }), one.trouble];
    if (one.always_late) return [element("i", null, { class: "dot refused" }), `connected, but late in the last ${one.late} rounds`];
    const differs = one.differs ? `; it ${one.differs}` : "";
    if (one.connected) return [element("i", null, { class: "dot there" }), (one.seen ? `connected, ${ago(one.seen)}` : "connected") + differs];
    return [element("i", null, { class: "dot away" }), one.seen ? `away, ${ago(one.seen)}` : "not connected"];
  };

  const showPeople = () => {
    const sites = status.kind === "server", rows = status.participants;
    by("people").hidden = !rows.length;
    say("people-title", sites ? "Sites" : "Clients");
    const more = rows.length < status.clients ? `${whole(rows.length)} of ${whole(status.clients)} clients, those left out most often first. ` : "";
    say("people-note", `${more}${sites ? "A sign of life is a heartbeat at the server." : "The last sign of life of a simulated client is the last round it took part in."}`);
    const has = (key) => rows.some((row) => row[key] !== null && row[key] !== "");
    fill("participants", [
      { title: sites ? "Site" : "Client", cell: (row) => element("bdi", row.name) },
      ...(sites ? [{ title: "State", class: "left", cell: siteState }] : []),
      { title: "Last round", cell: (row) => whole(row.last_round) },
      { title: "Rounds", class: "minor", cell: (row) => whole(row.rounds) },
      { title: "Left out", cell: (row) => (row.left_out ? whole(row.left_out) : "–") },
      ...(rows.some((row) => row.clipped) ? [{ title: "Clipped", cell: (row) => (row.clipped ? whole(row.clipped) : "–") }] : []),
      ...(has("train") ? [{ title: "Training samples", class: sites ? "minor" : "", cell: (row) => whole(row.train) }] : []),
      ...(has("test") ? [{ title: "Test samples", class: "minor", cell: (row) => whole(row.test) }] : []),
      ...(has("version") ? [{ title: "Version", class: "minor", cell: (row) => row.version || "–" }] : []),
      ...(has("certificate_days") ? [{ title: "Certificate", class: "minor", warn: (row) => row.certificate_days !== null && row.certificate_days < FEW_DAYS, cell: (row) => (row.certificate_days === null ? "–" : row.certificate_days < 0 ? "expired" : `${row.certificate_days} days`) }] : []),
    ], rows);
  };

  const showRounds = () => {
    const first = Math.max(0, all.round.length - MOST_ROUNDS), places = [];
    for (let place = all.round.length - 1; place >= first; place -= 1) places.push(place);
    by("played").hidden = !places.length;
    const drawn = status.curves.filter((curve) => all.metrics[curve.name]?.some((value) => value !== null)).slice(0, 2);
    const without = new Map();
    for (const [round, name, , reason] of all.left.slice(-1000)) without.set(round, [...(without.get(round) ?? []), `${name} (${reason})`]);
    say("rounds-note", all.round.length > MOST_ROUNDS ? `The last ${MOST_ROUNDS} of ${whole(all.round.length)}; all are in metrics.jsonl.` : "");
    fill("rounds", [
      { title: "Round", cell: (place) => whole(all.round[place]) },
      { title: "Took part", cell: (place) => whole(all.selected[place]) },
      ...drawn.map((curve, i) => ({ title: i ? "Shared model" : "Clients' models", class: i ? "minor" : "", cell: (place) => shown(all.metrics[curve.name][place], curve.is_share) })),
      { title: "Up", class: "minor", cell: (place) => size(all.up[place]) },
      { title: "Down", class: "minor", cell: (place) => size(all.down[place]) },
      { title: "Time", cell: (place) => (all.seconds[place] === null ? "–" : long(all.seconds[place])) },
      ...(all.left.length ? [{ title: "Left out", class: "minor people", cell: (place) => (without.get(all.round[place]) ?? []).join("; ") }] : []),
    ], places);
  };

  // One row for a client that is left out of the same for the same reason, round after round.
  const spells = () => {
    const found = [], open = new Map();
    for (const [round, ...rest] of all.left.slice(-RECENT_LEFT_OUT)) {
      const key = rest.join("\n"), spell = open.get(key);
      if (spell && round <= spell.last + 1) spell.last = round;
      else {
        open.set(key, { first: round, last: round, rest });
        found.push(open.get(key));
      }
    }
    return found.sort((a, b) => a.last - b.last).map(({ first, last, rest }) => [first === last ? first : `${first}–${last}`, ...rest]);
  };

  const showLeftOut = () => {
    const found = spells(), rows = found.slice(-MOST_LEFT_OUT).reverse(), more = all.left.length > RECENT_LEFT_OUT || rows.length < found.length;
    by("missing").hidden = !rows.length;
    say("missing-note", `${more ? `The last ones of ${whole(all.left.length)} answers; all are in metrics.jsonl. ` : ""}Each round went on without them.`);
    fill("left-out", ["Round", "Who", "Of what", "Why"].map((title, place) => ({ title, cell: (row) => element("bdi", String(row[place])) })), rows);
  };

  const showLogs = () => {
    by("written").hidden = !Object.keys(logs).length;
    const known = new Map([...by("logs").children].map((box) => [box.dataset.name, box]));
    for (const [name, box] of known) if (!(name in logs)) box.remove();
    for (const [name, lines] of Object.entries(logs)) {
      let box = known.get(name);
      if (!box) {
        box = element("details", null, { "data-name": name });
        box.append(element("summary", name), element("pre"));
        box.addEventListener("toggle", () => (box.lastChild.scrollTop = box.lastChild.scrollHeight));
        by("logs").append(box);
      }
      const text = box.lastChild, end = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
      text.textContent = lines.join("\n");
      if (end) text.scrollTop = text.scrollHeight;
    }
  };

  const showAbout = () => {
    const words = [status.folder, ...Object.entries(status.versions).map(([name, version]) => `${name} ${version}`)];
    if (status.process !== null) words.push(`process ${status.process}`);
    if (status.audit) words.push(`audit log: ${status.audit}`);
    by("about").textContent = words.join(" · ");
  };

  // ---- events

  const views = { head: [showHead], status: [showHead, showCards, showPeople, showAbout], rounds: [showCards, showCharts, showRounds, showLeftOut], logs: [showLogs] };
  const due = new Set();
  const show = (what) => {
    if (!due.size) requestAnimationFrame(() => {
      const chosen = [...due];
      due.clear();
      new Set(chosen.flatMap((name) => views[name])).forEach((view) => view());
    });
    due.add(what);
  };

  const takeRounds = (news) => {
    for (const name of ["round", "up", "down", "selected", "seconds"]) all[name] = all[name].slice(0, news.first).concat(news[name]);
    for (const [name, values] of Object.entries(news.metrics)) all.metrics[name] = (all.metrics[name] ?? []).slice(0, news.first).concat(values);
    all.left = all.left.slice(0, news.first_left_out).concat(news.left_out);
  };

  const source = new EventSource("events");
  source.addEventListener("open", () => (by("lost").hidden = true));
  source.addEventListener("error", () => (by("lost").hidden = false));
  source.addEventListener("status", (event) => {
    const news = JSON.parse(event.data);
    status = news.status;
    ahead = news.now - Date.now() / 1000;
    show("status");
  });
  source.addEventListener("rounds", (event) => {
    takeRounds(JSON.parse(event.data));
    show("rounds");
  });
  source.addEventListener("logs", (event) => {
    logs = JSON.parse(event.data);
    show("logs");
  });

  setInterval(() => show("head"), 1000);
  const redraw = () => charts.forEach(draw);
  let width = by("charts").clientWidth;
  new ResizeObserver(() => {
    if (by("charts").clientWidth !== width) {
      width = by("charts").clientWidth;
      redraw();
    }
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  show("status");
})();
