"use strict";
(() => {
  const { studies, metrics: METRICS } = JSON.parse(document.getElementById("data").textContent);
  const known = (key) => studies.some(({ configurations }) => configurations.some(({ points }) => points.some((one) => one[key] !== null)));
  const measured = Object.keys(METRICS).filter(known);
  const state = {
    study: 0, metric: measured[0], axis: "log", range: "crop", hidden: new Set(), at: null,
    sort: { column: "", ascending: true },
  };

  const byId = (id) => document.getElementById(id);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  function paint() {
    const dark = chosen ?? system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").textContent = dark ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", `Switch to the ${dark ? "light" : "dark"} theme`);
  }
  system.addEventListener("change", paint);
  byId("theme").addEventListener("click", () => { chosen = !(chosen ?? system.matches); paint(); });
  paint();
  if (!studies.length) {
    byId("study").hidden = true;
    return;
  }
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }
  const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
  const s = (name, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

  const study = () => studies[state.study];
  const isPrivate = (configuration) => ["default", "private", "paper"].includes(configuration.kind);
  const isPale = (configuration) => configuration.colour === null && configuration.kind !== "baseline";
  const visible = () => study().configurations.filter((configuration) => !state.hidden.has(configuration.label));
  const look = (configuration) => [
    "curve", configuration.kind,
    configuration.kind === "baseline" ? "" : configuration.colour === null ? "pale" : `c${configuration.colour}`,
  ].join(" ");

  const short = (value) => {
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)) return value.toExponential(1).replace(".0e", "e");
    return String(Number(value.toPrecision(3)));
  };
  const epsilonText = (epsilon) => String(Number(epsilon.toPrecision(4)));
  /* An objective above the minimum has no decimal places of its own. */
  const number = (value, metric) =>
    metric in METRICS && metric !== "noise_scale" ? (METRICS[metric].factor * value).toFixed(study().digits[metric]).replace(/^-(?=[0.]*$)/, "") : short(value);
  const errorText = (pair, metric) => (pair.error === null ? "" : ` ±${metric in METRICS && metric !== "noise_scale"
    ? (METRICS[metric].factor * pair.error).toFixed(study().digits[metric] + METRICS[metric].finer) : short(pair.error)}`);
  const time = (seconds) => (seconds < 1 ? `${short(1000 * seconds)} ms` : `${short(seconds)} s`);

  /* Which number of a point is drawn: objectives above the minimum where the minimum is known. */
  const drawnKey = () => (state.metric === "objective" && study().above_minimum ? "excess" : state.metric);
  function series(configuration) {
    const factor = METRICS[state.metric].factor;
    return configuration.points.filter((point) => point[drawnKey()] !== null).map((point) => {
      const { mean, error } = point[drawnKey()];
      return { epsilon: point.epsilon, mean: factor * mean, error: factor * (error ?? 0), point };
    });
  }

  const MARKS = [
    (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    (r) => `M${-r},${-r}H${r}V${r}H${-r}Z`,
    (r) => `M0,${-1.2 * r}L${1.15 * r},${0.9 * r}H${-1.15 * r}Z`,
    (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0Z`,
    (r) => `M0,${1.2 * r}L${1.15 * r},${-0.9 * r}H${-1.15 * r}Z`,
    (r) => { const a = 1.3 * r, b = 0.45 * r; return `M${-b},${-a}H${b}V${-b}H${a}V${b}H${b}V${a}H${-b}V${b}H${-a}V${-b}H${-b}Z`; },
    (r) => `M${-r},${-1.2 * r}L${r},${1.2 * r}H${-r}L${r},${-1.2 * r}Z`,
    (r) => `M${-1.2 * r},${-r}L${1.2 * r},${r}V${-r}L${-1.2 * r},${r}Z`,
  ];
  const mark = (configuration, x, y, r = 4) => configuration.kind === "baseline" ? null
    : s("path", { class: "mark", d: MARKS[configuration.colour ?? 0](configuration.colour === null ? 2 : r), transform: `translate(${x},${y})` });
  const swatch = (configuration) => s("svg", { width: 30, height: 14, "aria-hidden": "true", class: look(configuration) },
    s("path", { class: "line", d: "M1,7H29" }), mark(configuration, 15, 7, 3.6));

  function scale(low, high, from, to, logarithmic) {
    const f = logarithmic ? Math.log10 : (value) => value;
    const span = f(high) - f(low) || 1;
    return (value) => from + ((f(value) - f(low)) / span) * (to - from);
  }
  function linearTicks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((times) => times * power).find((some) => some >= rough);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
  }
  function logTicks(low, high) {
    const first = Math.round(Math.log10(low)), last = Math.round(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / 7)), ticks = [];
    for (let power = first; power <= last; power++) {
      if ((power - first) % every === 0) ticks.push(10 ** power);
    }
    return ticks;
  }
  /* The worst value on the scale, in what is drawn; null where all of them are. */
  function limit() {
    const worst = drawnKey() === "excess" ? null : study().limits[state.metric];
    return worst === null || state.range === "all" ? null : METRICS[state.metric].factor * worst;
  }

  let chart = null;
  function drawChart() {
    const holder = byId("chart");
    const width = Math.max(260, holder.clientWidth), wide = width >= 620;
    const shown = visible().map((configuration) => ({ configuration, points: series(configuration) })).filter((one) => one.points.length);
    const height = wide ? 420 : 300, margin = { top: 14, right: 14, bottom: 42, left: 56 };
    const right = width - margin.right, bottom = height - margin.bottom;
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0,
      "aria-label": `${METRICS[state.metric].title} over epsilon for ${shown.length} configurations on ${study().dataset}, ${study().loss} loss. Arrow keys read the values; the table below has all of them.` });
    chart = null;
    if (!shown.length) {
      svg.append(s("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "quiet" },
        visible().length ? "No configuration that is shown has this quantity." : "All configurations are hidden."));
      holder.replaceChildren(svg);
      return;
    }
    const { better } = METRICS[state.metric], end = limit(), down = better > 0;
    const worse = (value) => end !== null && better * value < better * end;
    const every = shown.flatMap(({ points }) => points.map((point) => point.mean));
    const cropped = every.some(worse) && !every.every(worse);
    const beyond = (value) => cropped && worse(value);
    const logarithmic = drawnKey() === "excess" || state.metric === "noise_scale";
    const lowest = (point) => (logarithmic ? Math.max(point.mean - point.error, 0.3 * point.mean) : point.mean - point.error);
    const means = every.filter((value) => !beyond(value));
    let low = Math.min(...means), high = Math.max(...means);
    if (logarithmic) {
      low = 10 ** Math.floor(Math.log10(low) + 1e-9);
      high = Math.max(10 * low, 10 ** Math.ceil(Math.log10(high) - 1e-9));
    } else {
      const room = 0.09 * (high - low) || 0.05 * Math.abs(high) || 1;
      low -= room; high += room;
    }
    const epsilons = study().epsilons;
    const first = epsilons[0], last = epsilons[epsilons.length - 1], single = first === last;
    const log = state.axis === "log";
    const ends = log ? [first / (single ? 2 : 1), last * (single ? 2 : 1)] : [single ? 0 : Math.min(0, first), last * (single ? 2 : 1)];
    const x = scale(ends[0], ends[1], margin.left + 12, right - 12, log);
    const y = scale(low, high, bottom, margin.top, logarithmic);

    for (const tick of logarithmic ? logTicks(low, high) : linearTicks(low, high, 6)) {
      svg.append(s("line", { class: "grid", x1: margin.left, x2: right, y1: y(tick), y2: y(tick) }),
        s("text", { class: "quiet", x: margin.left - 7, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    svg.append(s("line", { class: "frame", x1: margin.left, x2: right, y1: bottom, y2: bottom }));
    let free = -Infinity;
    for (const epsilon of epsilons) {
      svg.append(s("line", { class: "frame", x1: x(epsilon), x2: x(epsilon), y1: bottom, y2: bottom + 4 }));
      const half = 4 * epsilonText(epsilon).length;
      if (x(epsilon) - half < free) continue;
      free = x(epsilon) + half + 4;
      svg.append(s("text", { class: "tick quiet", x: x(epsilon), y: bottom + 18, "text-anchor": "middle" }, epsilonText(epsilon)));
    }
    svg.append(s("text", { x: (margin.left + right) / 2, y: height - 6, "text-anchor": "middle" }, "ε (more privacy to the left)"));

    const panel = { x: margin.left, y: margin.top, width: right - margin.left, height: bottom - margin.top };
    const marked = new Map(), edge = down ? bottom : margin.top;
    function arrow(configuration, epsilon) { /* side by side; the grey ones, which are drawn first, share theirs */
      const count = marked.get(epsilon) ?? 0;
      if (isPale(configuration) && count) return null;
      const across = 9 * Math.ceil(count / 2) * (count % 2 ? 1 : -1);
      marked.set(epsilon, count + 1);
      return s("path", { class: "arrow", d: down ? "M-4,-7H4L0,1Z" : "M-4,7H4L0,-1Z", transform: `translate(${x(epsilon) + across},${edge})` });
    }
    const order = [...shown].sort((a, b) => rank(a.configuration) - rank(b.configuration));
    for (const { configuration, points } of order) {
      const group = s("g", { class: look(configuration), "data-label": configuration.label });
      const path = (list) => `M${list.map(([px, py]) => `${px.toFixed(2)},${py.toFixed(2)}`).join("L")}`;
      const inside = s("svg", { ...panel, viewBox: Object.values(panel).join(" ") }); /* cuts off what is beyond it */
      if (configuration.kind === "baseline") {
        const level = y(points[points.length - 1].mean);
        inside.append(s("path", { class: "line", d: path([[margin.left, level], [right, level]]) }));
      } else {
        if (configuration.colour !== null) {
          const upper = points.map((point) => [x(point.epsilon), y(point.mean + point.error)]);
          const lower = points.map((point) => [x(point.epsilon), y(lowest(point))]).reverse();
          const wider = points.length > 1 ? [...upper, ...lower]
            : [[-2, 0], [2, 0], [2, 1], [-2, 1]].map(([dx, end]) => [upper[0][0] + dx, (end ? lower : upper)[0][1]]);
          inside.append(s("path", { class: "band", d: `${path(wider)}Z` }));
        }
        inside.append(s("path", { class: "line", d: path(points.map((point) => [x(point.epsilon), y(point.mean)])) }));
        group.append(...points.filter((point) => !beyond(point.mean)).map((point) => mark(configuration, x(point.epsilon), y(point.mean))),
          ...points.filter((point) => beyond(point.mean)).map((point) => arrow(configuration, point.epsilon)).filter((one) => one));
      }
      group.prepend(inside);
      svg.append(group);
    }
    nameBaselines(shown, { svg, y, beyond, down, left: margin.left + 5, right: right - 5, edge });
    byId("range").hidden = study().limits[state.metric] === null || drawnKey() === "excess";
    byId("cropped").textContent = cropped ? "Arrows: off the scale; the table has the values." : "";
    const guide = s("line", { class: "guide", y1: margin.top, y2: bottom, visibility: "hidden" });
    svg.append(guide);
    holder.replaceChildren(svg);
    chart = { svg, x, y, shown, guide, width, right, wide };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") read(null); });
    svg.addEventListener("blur", () => read(null));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") read(null);
      if (!step) return;
      event.preventDefault();
      const now = epsilons.indexOf(state.at);
      read(epsilons[now < 0 ? (step > 0 ? 0 : epsilons.length - 1) : Math.min(epsilons.length - 1, Math.max(0, now + step))]);
    });
    read(null);
  }
  /* Names on the dotted lines, at the end with more room; those of one place share a label. */
  function nameBaselines(shown, { svg, y, beyond, down, left, right, edge }) {
    const lines = shown.filter(({ configuration }) => configuration.kind !== "baseline");
    const labels = [], off = [];
    for (const { configuration, points } of shown.filter((one) => one.configuration.kind === "baseline")) {
      const value = points[points.length - 1].mean, at = y(value), near = labels.find((one) => Math.abs(one.at - at) < 13);
      if (beyond(value)) off.push(`${down ? "↓" : "↑"} ${configuration.label} ${short(value)}`);
      else if (near) near.names.push(configuration.label);
      else labels.push({ at, names: [configuration.label] });
    }
    for (const { at, names } of labels) {
      const room = (place) => Math.min(...lines.map(({ points }) => Math.abs(y(points[place(points)].mean) - at + 8)));
      const start = room(() => 0) >= room((points) => points.length - 1);
      svg.append(s("text", { class: "small halo", x: start ? left : right, y: at - 4, "text-anchor": start ? "start" : "end" }, `${names.join(", ")} (not private)`));
    }
    if (off.length) svg.append(s("text", { class: "small halo", x: right, y: edge + (down ? -6 : 12), "text-anchor": "end" }, off.join(", ")));
  }
  const rank = (configuration) => (configuration.colour !== null ? 2 : configuration.kind === "baseline" ? 1 : 0);

  function point(event) {
    const box = chart.svg.getBoundingClientRect(), zoom = chart.width / box.width;
    const px = (event.clientX - box.left) * zoom, py = (event.clientY - box.top) * zoom;
    const nearest = study().epsilons.reduce((best, epsilon) =>
      Math.abs(chart.x(epsilon) - px) < Math.abs(chart.x(best) - px) ? epsilon : best);
    let near = null, distance = 24;
    for (const { configuration, points } of chart.shown) {
      const here = valueAt(configuration, points, nearest);
      const away = here ? Math.abs(chart.y(here.mean) - py) : Infinity;
      if (away < distance) [near, distance] = [configuration.label, away];
    }
    read(nearest, near);
  }
  const valueAt = (configuration, points, epsilon) => points.find((one) => one.epsilon === epsilon);

  function emphasise(label) {
    for (const group of byId("chart").querySelectorAll("g.curve")) {
      group.classList.toggle("near", label !== null && group.dataset.label === label);
    }
  }
  function read(epsilon, near = null) {
    const box = byId("readout");
    state.at = epsilon;
    emphasise(near);
    if (epsilon === null || !chart) {
      box.replaceChildren();
      if (chart) chart.guide.setAttribute("visibility", "hidden");
      return;
    }
    const key = drawnKey(), better = METRICS[state.metric].better || 1;
    const rows = chart.shown.map(({ configuration, points }) => ({ configuration, here: valueAt(configuration, points, epsilon) }))
      .filter((row) => row.here).sort((a, b) => better * (b.here.mean - a.here.mean));
    const listed = rows.slice(0, 10), nearRow = rows.find((row) => row.configuration.label === near);
    if (nearRow && !listed.includes(nearRow)) listed.push(nearRow);
    box.replaceChildren(h("strong", {}, `ε = ${epsilonText(epsilon)}`), h("table", {}, ...listed.map(({ configuration, here }) => {
      const pair = here.point[key];
      return h("tr", { class: configuration.label === near ? "near" : null }, h("td", {}, swatch(configuration)), h("td", {}, configuration.label),
        h("td", { class: "number" }, number(pair.mean, key)), h("td", { class: "number" }, errorText(pair, key)));
    })), rows.length > listed.length ? h("div", { class: "quiet" }, `and ${rows.length - listed.length} more in the table`) : "");
    chart.guide.setAttribute("visibility", "visible");
    chart.guide.setAttribute("x1", chart.x(epsilon));
    chart.guide.setAttribute("x2", chart.x(epsilon));
    if (chart.wide) {
      const at = chart.x(epsilon), size = box.offsetWidth;
      box.style.left = `${at + 16 + size > chart.width ? Math.max(0, at - 16 - size) : at + 16}px`;
      box.style.top = "20px";
    } else {
      box.style.left = box.style.top = "";
    }
  }

  function drawLegend() {
    const listed = [...study().configurations].sort((a, b) => rank(b) - rank(a));
    byId("legend").replaceChildren(...listed.map((configuration) => {
      const button = h("button", { type: "button", "data-label": configuration.label, "aria-pressed": String(!state.hidden.has(configuration.label)) },
        swatch(configuration), h("span", {}, configuration.label, configuration.remark ? h("small", {}, ` ${configuration.remark}`) : null));
      button.addEventListener("click", () => {
        if (!state.hidden.delete(configuration.label)) state.hidden.add(configuration.label);
        button.setAttribute("aria-pressed", String(!state.hidden.has(configuration.label)));
        drawChart();
      });
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => emphasise(configuration.label));
      for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => emphasise(null));
      return button;
    }));
    byId("best").hidden = !study().configurations.some(isPale);
  }

  function drawTable() {
    const { epsilons, configurations } = study(), metric = state.metric, { better, title } = METRICS[metric];
    const cell = (configuration, epsilon) => configuration.points.find((one) => one.epsilon === epsilon)?.[metric] ?? null;
    const columns = [
      { key: "label", text: "configuration", value: (configuration) => configuration.label },
      ...epsilons.map((epsilon) => ({ key: String(epsilon), text: `ε = ${epsilonText(epsilon)}`, epsilon,
        value: (configuration) => cell(configuration, epsilon)?.mean ?? null })),
      { key: "seconds", text: "time per model", value: (configuration) => configuration.seconds },
    ];
    const sorted = [...configurations], by = columns.find((column) => column.key === state.sort.column);
    if (by) {
      const sign = state.sort.ascending ? 1 : -1;
      sorted.sort((a, b) => {
        const [one, other] = [by.value(a), by.value(b)];
        if (one === null || other === null) return (one === null) - (other === null);
        return sign * (typeof one === "string" ? one.localeCompare(other) : one - other);
      });
    }
    const best = (epsilon) => {
      const values = configurations.filter(isPrivate)
        .map((one) => cell(one, epsilon)?.mean).filter((value) => value !== undefined);
      return better && values.length ? better * Math.max(...values.map((value) => better * value)) : null;
    };
    const bests = new Map(epsilons.map((epsilon) => [epsilon, best(epsilon)]));
    const head = h("tr", {}, ...columns.map((column) => {
      const button = h("button", { type: "button" }, column.text);
      button.addEventListener("click", () => {
        const again = state.sort.column === column.key;
        const start = column.epsilon === undefined || better < 1;
        state.sort = { column: column.key, ascending: again ? !state.sort.ascending : start };
        drawTable();
        byId("table").querySelectorAll("thead button")[columns.indexOf(column)].focus();
      });
      const sort = state.sort.column !== column.key ? null : state.sort.ascending ? "ascending" : "descending";
      return h("th", { scope: "col", "aria-sort": sort }, button);
    }));
    const body = sorted.map((configuration) => h("tr", {},
      h("th", { scope: "row" }, configuration.label, configuration.remark ? h("small", {}, configuration.remark) : null),
      ...epsilons.map((epsilon) => {
        const pair = cell(configuration, epsilon);
        if (!pair) return h("td", { title: "no result: skipped, or not defined for this configuration" }, "–");
        const wins = isPrivate(configuration) && pair.mean === bests.get(epsilon);
        return h("td", { class: wins ? "best" : null }, number(pair.mean, metric), h("small", {}, errorText(pair, metric)));
      }),
      h("td", {}, time(configuration.seconds))));
    byId("table").replaceChildren(h("thead", {}, head), h("tbody", {}, ...body));
    byId("table-note").textContent = `${title}: mean ${study().error}.${better ? " Marked: the best private mean at each ε." : ""}`;
  }

  function drawCost() {
    const sorted = [...study().configurations].sort((a, b) => a.seconds - b.seconds);
    const most = Math.max(sorted[sorted.length - 1].seconds, 1e-6), least = Math.max(sorted[0].seconds, 1e-6);
    const wide = most > 300 * least;
    const length = (seconds) => (wide ? Math.max(0, Math.log10(10 * seconds / least) / Math.log10(10 * most / least)) : seconds / most);
    const total = sorted.reduce((sum, one) => sum + one.seconds * one.points.reduce((runs, at) => runs + at.runs, 0), 0);
    const models = sorted.reduce((sum, one) => sum + one.points.reduce((runs, at) => runs + at.runs, 0), 0);
    byId("cost-note").textContent = `Training time per model; models that share their passes over the rows share its cost. `
      + `All ${models} models: ${time(total)}.${wide ? " The bars are on a logarithmic scale." : ""}`;
    byId("cost").replaceChildren(h("div", { class: "cost" }, ...sorted.flatMap((configuration) => {
      const bar = h("i");
      bar.style.width = `${100 * length(configuration.seconds)}%`;
      return [h("span", {}, configuration.label), h("span", { "aria-hidden": "true" }, bar), h("span", {}, time(configuration.seconds))];
    })));
  }

  function drawSettings() {
    const { facts, versions, machine, skipped, configurations } = study();
    const list = (pairs) => h("dl", {}, ...pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    const tunings = { rule: "fixed by a public rule", search: "chosen privately, paid from the budget", oracle: "chosen on the test rows: not private" };
    const used = configurations.filter((configuration) => configuration.settings.length).map((configuration) => h("details", {},
      h("summary", {}, `${configuration.label}: ${tunings[configuration.tuning] ?? configuration.tuning}${configuration.kind === "paper" ? "; the paper's accounting" : ""}`),
      ...configuration.settings.map(({ used: values, epsilons }) => h("p", { class: "quiet" },
        `ε = ${epsilons.map(epsilonText).join(", ")}: ${Object.entries(values).map(([name, value]) => `${name} = ${value}`).join(", ")}`))));
    byId("settings").replaceChildren(
      list(facts),
      h("h3", {}, "Skipped"),
      skipped.length ? h("ul", { id: "skipped" }, ...skipped.map((part) => h("li", {},
        `${part.label}${part.epsilons.length ? ` at ε = ${part.epsilons.map(epsilonText).join(", ")}` : ""}: ${part.reason}`)))
        : h("p", { class: "quiet" }, "Nothing was skipped."),
      ...(used.length ? [h("h3", {}, "Settings of each configuration"), ...used] : []),
      h("h3", {}, "Versions and machine"),
      list([...Object.entries(versions), ...Object.entries(machine)]));
  }

  function drawStudy() {
    const { dataset, loss, error } = study(), above = drawnKey() === "excess";
    byId("drawn").textContent = `${dataset}, ${loss} loss. ${METRICS[state.metric].title}${above ? ", above the minimum (none)" : ""}. Bands: ${error}. Point at the chart, or use arrow keys in it, to read values.`;
    drawLegend();
    drawChart();
    drawTable();
  }
  function openStudy(place) {
    state.study = place;
    for (const [i, tab] of [...byId("tabs").children].entries()) {
      tab.setAttribute("aria-selected", String(i === place));
      tab.tabIndex = i === place ? 0 : -1;
    }
    drawStudy();
    drawCost();
    drawSettings();
  }

  /* One of several buttons is chosen; arrow keys move between them. */
  function choices(holder, entries, role, attribute, choose) {
    const buttons = entries.map(([value, text], i) => {
      const button = h("button", { type: "button", role, "data-value": value, [attribute]: String(i === 0) }, text);
      button.tabIndex = i === 0 ? 0 : -1;
      const pick = () => {
        for (const other of buttons) {
          other.setAttribute(attribute, String(other === button));
          other.tabIndex = other === button ? 0 : -1;
        }
        choose(value);
      };
      button.addEventListener("click", pick);
      button.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const other = buttons[(i + step + buttons.length) % buttons.length];
        other.focus();
        other.click();
      });
      return button;
    });
    holder.append(...buttons);
  }
  choices(byId("metric"), measured.map((key) => [key, METRICS[key].name]), "radio", "aria-checked",
    (metric) => { state.metric = metric; drawStudy(); });
  choices(byId("axis"), [["log", "log ε"], ["linear", "linear ε"]], "radio", "aria-checked",
    (axis) => { state.axis = axis; drawChart(); });
  choices(byId("range"), [["crop", "what matters"], ["all", "whole range"]], "radio", "aria-checked",
    (range) => { state.range = range; drawChart(); });
  if (studies.length > 1) {
    choices(byId("tabs"), studies.map((one, i) => [i, `${one.dataset} · ${one.loss}`]), "tab", "aria-selected",
      (place) => openStudy(Number(place)));
  }
  byId("all").addEventListener("click", () => { state.hidden.clear(); drawStudy(); });
  byId("best").addEventListener("click", () => {
    for (const configuration of study().configurations) state.hidden[isPale(configuration) ? "add" : "delete"](configuration.label);
    drawStudy();
  });
  byId("nobody").addEventListener("click", () => {
    for (const configuration of study().configurations) state.hidden.add(configuration.label);
    drawStudy();
  });

  openStudy(0);
  let width = byId("chart").clientWidth;
  new ResizeObserver(() => {
    if (byId("chart").clientWidth !== width) {
      width = byId("chart").clientWidth;
      drawChart();
    }
  }).observe(byId("chart"));
})();
