"use strict";
(() => {
  const about = JSON.parse(document.getElementById("model").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const BOX = { width: 172, height: 48, across: 34, down: 54, margin: 28 };
  const find = (id) => document.getElementById(id);
  const short = (kind) => kind.slice(kind.lastIndexOf(".") + 1) || kind;
  const packageOf = (kind) => (kind.includes(".") ? kind.slice(0, kind.lastIndexOf(".")) : "");
  const isEnd = (node) => about.ends.includes(node.kind);

  const empty = () => ({ nodes: [{ id: about.start, kind: about.start, attributes: {} }], edges: [], name: "" });
  let flow = empty(), chosen = about.start, label = "", connecting = false, question = 0;
  const past = [];

  // -- the flow

  const node = (id) => flow.nodes.find((one) => one.id === id);
  const outgoing = (id) => flow.edges.filter((edge) => edge.source === id);

  function change(action) {
    const before = JSON.stringify({ flow, chosen });
    if (action() === false) return;
    past.push(before);
    if (past.length > 200) past.shift();
    show();
  }

  function freeId(kind) {
    const name = short(kind);
    let id = name, number = 1;
    while (node(id)) id = `${name} ${++number}`;
    return id;
  }

  function usualLabel(id) {
    if (node(id).kind === about.start) return "";
    const plain = about.plain;
    const taken = new Set(outgoing(id).map((edge) => edge.label));
    if (!taken.has(plain)) return plain;
    const next = plain ? [1, 2, 3, 4, 5].map((number) => `${plain} ${number}`) : about.labels;
    return next.find((way) => !taken.has(way)) ?? plain;
  }

  function add(kind) {
    change(() => {
      const id = freeId(kind);
      flow.nodes.push({ id, kind, attributes: {} });
      flow.edges.push({ source: chosen, target: id, label });
      if (!about.ends.includes(kind)) choose(id);
      else label = usualLabel(chosen);
      if (!(kind in about.families)) about.families[kind] = "action";
    });
  }

  function connect(target) {
    connecting = false;
    change(() => {
      const wrong = target === chosen || node(target).kind === about.start || flow.edges.some((e) => e.source === chosen && e.target === target);
      if (wrong) return say("These two cannot be connected.") || show() || false;
      flow.edges.push({ source: chosen, target, label });
      label = usualLabel(chosen);
    });
  }

  function remove() {
    change(() => {
      if (node(chosen).kind === about.start) return false;
      const before = flow.edges.find((edge) => edge.target === chosen);
      flow.nodes = flow.nodes.filter((one) => one.id !== chosen);
      flow.edges = flow.edges.filter((edge) => edge.source !== chosen && edge.target !== chosen);
      choose(before ? before.source : flow.nodes[0].id);
    });
  }

  function choose(id) {
    chosen = id;
    label = isEnd(node(id)) ? "" : usualLabel(id);
    connecting = false;
  }

  // -- talking to the model

  const asJson = () => ({
    format: "fedloom-flow", version: 1, dialect: about.dialect, name: flow.name,
    nodes: flow.nodes.map((one) => ({ id: one.id, kind: one.kind, attributes: one.attributes })),
    edges: flow.edges.map((edge) => ({ source: edge.source, target: edge.target, label: edge.label, attributes: edge.attributes || {} })),
  });

  async function ask(path, body) {
    const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  }

  async function recommend() {
    const mine = ++question;
    say(""); // now, and not with the answer: what is shown in the meantime stays
    wait(true); // what was suggested for another place is not to be chosen
    if (isEnd(node(chosen))) return list([], "Nothing follows an end. Choose another action to continue.");
    try {
      const found = await ask("/recommend", { flow: asJson(), after: chosen, label, top: 8 });
      if (mine !== question) return;
      const words = found.unknown.slice(0, 3).map((word) => `${word.attribute} “${word.word}”`).join(", ");
      list(found.suggestions, words ? `The model has not learnt ${words}.` : `Answered in ${Math.max(1, Math.round(found.milliseconds))} ms.`);
    } catch (error) {
      if (mine === question) { list([], ""); say(error.message || "The model does not answer: is the program still running?"); }
    }
  }

  // -- what is shown

  function say(text) {
    find("problem").textContent = text;
    find("problem").hidden = !text;
  }

  function element(name, attributes = {}, ...inside) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  }

  function html(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function wait(waiting) {
    find("suggestions").inert = waiting;
    find("suggestions").setAttribute("aria-busy", waiting);
  }

  function list(suggestions, note) {
    wait(false);
    find("suggestions").replaceChildren(...suggestions.map(({ kind, probability }) => {
      const button = html("button"), bar = html("span", "bar"), name = html("span", "name", short(kind.split(" or ")[0]));
      button.type = "button";
      bar.style.width = `${100 * probability}%`;
      const home = packageOf(kind.split(" or ")[0]);
      if (home) name.append(html("small", "", home));
      button.append(bar, name, html("span", "share", `${(100 * probability).toFixed(1)} %`));
      const unnamed = /^(bucket \d+|other|unknown)$/.test(kind);
      button.disabled = unnamed;
      if (unnamed) button.title = "An action of another organisation, or a rare one";
      button.addEventListener("click", () => add(kind.split(" or ")[0]));
      const item = html("li");
      item.append(button);
      return item;
    }));
    find("note").textContent = note;
  }

  /** Ranks by the longest way from the start, without edges that lead back; within a rank near what leads there. */
  function layout() {
    const state = new Map(), order = [], back = new Set();
    const visit = (id) => {
      const open = [[id, 0]];
      state.set(id, 1);
      while (open.length) {
        const top = open[open.length - 1], edge = outgoing(top[0])[top[1]++];
        if (!edge) { state.set(top[0], 2); order.unshift(top[0]); open.pop(); continue; }
        if (state.get(edge.target) === 1) back.add(edge);
        else if (!state.has(edge.target)) { state.set(edge.target, 1); open.push([edge.target, 0]); }
      }
    };
    flow.nodes.forEach((one) => state.has(one.id) || visit(one.id));
    const rank = new Map(order.map((id) => [id, 0])), ranks = [];
    for (const id of order)
      for (const edge of outgoing(id))
        if (!back.has(edge)) rank.set(edge.target, Math.max(rank.get(edge.target), rank.get(id) + 1));
    const entered = new Set(flow.edges.map((edge) => edge.target));
    for (const id of order) // what is attached to an action stands right above it
      if (!entered.has(id) && node(id).kind !== about.start && outgoing(id).length)
        rank.set(id, Math.max(0, Math.min(...outgoing(id).map((edge) => rank.get(edge.target))) - 1));
    const number = new Map(flow.nodes.map((one, i) => [one.id, i]));
    [...order].sort((a, b) => number.get(a) - number.get(b)).forEach((id) => (ranks[rank.get(id)] ??= []).push(id));
    const place = new Map(), step = BOX.width + BOX.across;
    ranks.forEach((some, row) => {
      const wish = (id) => {
        const from = flow.edges.filter((edge) => edge.target === id && !back.has(edge)).map((edge) => place.get(edge.source)?.x ?? 0);
        return from.length ? from.reduce((a, b) => a + b) / from.length : row ? 1e3 : 0;
      };
      const sorted = some.map((id, i) => ({ id, i, wish: wish(id) })).sort((a, b) => a.wish - b.wish || a.i - b.i);
      const wishes = sorted.filter((one) => one.wish !== 1e3);
      const shift = (sorted.length - wishes.length) / 2; // attachments stand beside, and move nobody
      const middle = wishes.reduce((sum, one) => sum + one.wish, 0) / (wishes.length || 1) + shift * step;
      sorted.forEach((one, i) => place.set(one.id, { x: middle + (i - (sorted.length - 1) / 2) * step, y: row * (BOX.height + BOX.down) }));
    });
    return { place, back };
  }

  function draw() {
    const svg = find("flow"), { place, back } = layout();
    const xs = [...place.values()].map((at) => at.x), ys = [...place.values()].map((at) => at.y);
    const left = Math.min(...xs) - BOX.width / 2 - BOX.margin, width = Math.max(...xs) + BOX.width / 2 + BOX.margin - left;
    const height = Math.max(...ys) + BOX.height + 2 * BOX.margin + (isEnd(node(chosen)) ? 0 : BOX.height + BOX.down);
    svg.setAttribute("viewBox", `${left} ${-BOX.margin} ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const marker = element("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      element("path", { d: "M0 0 8 4 0 8z", fill: "#8a929c" }));
    const parts = [element("defs", {}, marker)];
    const line = (from, to, way, turned) => {
      const x1 = from.x, y1 = from.y + BOX.height, x2 = to.x, y2 = to.y, bend = Math.max(26, Math.abs(y2 - y1) / 2);
      const side = Math.max(x1, x2) + BOX.width / 2 + 22;
      const path = turned
        ? `M${x1 + BOX.width / 2} ${from.y + BOX.height / 2} C${side} ${from.y + BOX.height / 2} ${side} ${to.y + BOX.height / 2} ${x2 + BOX.width / 2} ${to.y + BOX.height / 2}`
        : `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2 - 2}`;
      parts.push(element("path", { class: turned ? "edge back" : "edge", d: path, "marker-end": "url(#tip)" }));
      if (way && way !== about.plain) {
        const text = element("text", { class: "way", x: (x1 + x2) / 2 + 6, y: (y1 + y2) / 2 + 4 });
        text.textContent = clip(way, 22);
        parts.push(text);
      }
    };
    for (const edge of flow.edges) line(place.get(edge.source), place.get(edge.target), edge.label, back.has(edge));
    for (const one of flow.nodes) parts.push(card(one, place.get(one.id)));
    svg.replaceChildren(...parts);
    const at = place.get(chosen), box = find("canvas"), shown = svg.querySelector(".chosen");
    if (shown && box.clientHeight) {
      box.scrollTop = at.y + BOX.margin + BOX.height / 2 - box.clientHeight / 2;
      box.scrollLeft = at.x - left - box.clientWidth / 2;
    }
  }

  const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  function card(one, at) {
    const family = about.order.indexOf(about.families[one.kind] ?? "action");
    const made = element("g", { class: "node", tabindex: 0, role: "button", "aria-label": `${one.id} (${short(one.kind)})`,
      transform: `translate(${at.x - BOX.width / 2} ${at.y})`, "data-id": one.id });
    if (one.id === chosen) made.classList.add("chosen");
    else if (connecting && one.kind !== about.start) made.classList.add("connecting");
    made.append(element("rect", { class: "card", width: BOX.width, height: BOX.height, rx: 9 }),
      element("rect", { class: `f${family}`, x: 8, y: 9, width: 5, height: BOX.height - 18, rx: 2.5 }));
    const title = element("text", { x: 23, y: 21 }), below = element("text", { class: "package", x: 23, y: 38 });
    const named = one.attributes.name || (isEnd(one) ? short(one.kind) : one.id), kind = short(one.kind);
    title.textContent = clip(named, 20);
    below.textContent = clip(named === kind ? packageOf(one.kind) : kind, 24);
    if (!below.textContent) title.setAttribute("y", 29);
    made.append(title, below);
    const act = () => { if (connecting && one.id !== chosen) connect(one.id); else { choose(one.id); show(); } };
    made.addEventListener("click", act);
    made.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } });
    return made;
  }

  function showSelected() {
    const one = node(chosen), end = isEnd(one), starts = one.kind === about.start;
    const where = find("where"), name = html("b", "", one.attributes.name || one.id);
    where.replaceChildren("After ", name);
    find("branch").hidden = end || starts;
    const ways = [...new Set([label, about.plain, ...about.labels])];
    find("label").replaceChildren(...ways.map((way) => { const made = html("option", "", way || "(no label)"); made.value = way; return made; }));
    find("label").value = label;
    find("remove").disabled = starts;
    find("connect").disabled = end || flow.nodes.length < 3;
    find("connect").textContent = connecting ? "Choose where to…" : "Connect to…";
    find("undo").disabled = !past.length;
    find("details").replaceChildren(...Object.entries(about.attributes).map(([key, words]) => {
      const row = html("label", "", key), input = html("input"), options = html("datalist");
      options.id = `words-${key}`;
      options.append(...words.filter(Boolean).map((word) => { const made = html("option"); made.value = word; return made; }));
      input.setAttribute("list", options.id);
      input.value = one.attributes[key] ?? "";
      input.addEventListener("change", () => change(() => { if (input.value) one.attributes[key] = input.value; else delete one.attributes[key]; }));
      row.append(input, options);
      return row;
    }));
  }

  function show() {
    draw();
    showSelected();
    recommend();
  }

  // -- the buttons

  find("whose").textContent = [about.client ? `The model of ${about.client}` : "A model that all share", about.method, `flows of ${about.dialect}`]
    .filter(Boolean).join(" · ");
  find("kinds").append(...about.kinds.map((kind) => { const made = html("option"); made.value = kind; return made; }));
  find("label").addEventListener("change", () => { label = find("label").value; recommend(); });
  find("other").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = find("kind").value.trim();
    const kind = about.kinds.find((one) => one === typed) ?? about.kinds.find((one) => short(one).toLowerCase() === typed.toLowerCase()) ?? typed;
    if (!kind || isEnd(node(chosen))) return;
    find("kind").value = "";
    add(kind);
  });
  find("connect").addEventListener("click", () => { connecting = !connecting; draw(); showSelected(); });
  find("remove").addEventListener("click", remove);
  find("undo").addEventListener("click", () => { ({ flow, chosen } = JSON.parse(past.pop())); choose(chosen); show(); });
  find("new").addEventListener("click", () => change(() => { flow = empty(); choose(about.start); }));
  find("save").addEventListener("click", () => {
    const link = html("a");
    link.href = `data:application/json;charset=utf-8,${encodeURIComponent(JSON.stringify(asJson(), null, 1))}`;
    link.download = "flow.json";
    link.click();
  });
  find("file").addEventListener("change", async () => {
    const [file] = find("file").files;
    if (!file) return;
    try {
      const found = await ask("/read", { name: file.name, text: await file.text() });
      change(() => {
        flow = { name: found.name ?? "", nodes: found.nodes.map((one) => ({ attributes: {}, ...one })), edges: found.edges.map((edge) => ({ label: "", ...edge })) };
        const open = flow.nodes.filter((one) => !isEnd(one) && !outgoing(one.id).length);
        choose((open[open.length - 1] ?? flow.nodes[0]).id);
      });
    } catch (error) {
      say(error.message);
    }
    find("file").value = "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    if (event.key === "Delete" || event.key === "Backspace") remove();
    if (event.key === "Escape") { connecting = false; draw(); showSelected(); }
    if (event.key === "z" && (event.ctrlKey || event.metaKey) && past.length) find("undo").click();
  });
  choose(chosen);
  show();
})();
