// The table of clients of a report: sorted by any column, searched, opened for details, and saved.
(() => {
  const data = pageData();
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

  startClients();
})();
