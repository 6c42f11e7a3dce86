"use strict";
(() => {
  const { studies, metrics: METRICS } = JSON.parse(document.getElementById("data").textContent);
  const known = (key) => studies.some(({ contenders }) => contenders.some(({ points }) => points.some((one) => one[key] !== null)));
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
  const isPrivate = (contender) => ["default", "private", "paper"].includes(contender.kind);
  const isPale = (contender) => contender.colour === null && contender.kind !== "baseline";
  const visible = () => study().contenders.filter((contender) => !state.hidden.has(contender.label));
  const look = (contender) => [
    "curve", contender.kind,
    contender.kind === "baseline" ? "" : contender.colour === null ? "pale" : `c${contender.colour}`,
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
  function series(contender) {
    const factor = METRICS[state.metric].factor;
    return contender.points.filter((point) => point[drawnKey()] !== null).map((point) => {
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
  const mark = (contender, x, y, r = 4) => contender.kind === "baseline" ? null
    : s("path", { class: "mark", d: MARKS[contender.colour ?? 0](contender.colour === null ? 2 : r), transform: `translate(${x},${y})` });
  const swatch = (contender) => s("svg", { width: 30, height: 14, "aria-hidden": "true", class: look(contender) },
    s("path", { class: "line", d: "M1,7H29" }), mark(contender, 15, 7, 3.6));

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
    const shown = visible().map((contender) => ({ contender, points: series(contender) })).filter((one) => one.points.length);
    const height = wide ? 420 : 300, margin = { top: 14, right: 14, bottom: 42, left: 56 };
    const right = width - margin.right, bottom = height - margin.bottom;
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0,
      "aria-label": `${METRICS[state.metric].title} over epsilon for ${shown.length} contenders on ${study().dataset}, ${study().loss} loss. Arrow keys read the values; the table below has all of them.` });
    chart = null;
    if (!shown.length) {
      svg.append(s("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "quiet" },
        visible().length ? "No contender that is shown has this quantity." : "All contenders are hidden."));
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
    function arrow(contender, epsilon) { /* side by side; the grey ones, which are drawn first, share theirs */
      const count = marked.get(epsilon) ?? 0;
      if (isPale(contender) && count) return null;
      const across = 9 * Math.ceil(count / 2) * (count % 2 ? 1 : -1);
      marked.set(epsilon, count + 1);
      return s("path", { class: "arrow", d: down ? "M-4,-7H4L0,1Z" : "M-4,7H4L0,-1Z", transform: `translate(${x(epsilon) + across},${edge})` });
    }
    const order = [...shown].sort((a, b) => rank(a.contender) - rank(b.contender));
    for (const { contender, points } of order) {
      const group = s("g", { class: look(contender), "data-label": contender.label });
      const path = (list) => `M${list.map(([px, py]) => `${px.toFixed(2)},${py.toFixed(2)}`).join("L")}`;
      const inside = s("svg", { ...panel, viewBox: Object.values(panel).join(" ") }); /* cuts off what is beyond it */
      if (contender.kind === "baseline") {
        const level = y(points[points.length - 1].mean);
        inside.append(s("path", { class: "line", d: path([[margin.left, level], [right, level]]) }));
      } else {
        if (contender.colour !== null) {
          const upper = points.map((point) => [x(point.epsilon), y(point.mean + point.error)]);
          const lower = points.map((point) => [x(point.epsilon), y(lowest(point))]).reverse();
          const wider = points.length > 1 ? [...upper, ...lower]
            : [[-2, 0], [2, 0], [2, 1], [-2, 1]].map(([dx, end]) => [upper[0][0] + dx, (end ? lower : upper)[0][1]]);
          inside.append(s("path", { class: "band", d: `${path(wider)}Z` }));
        }
        inside.append(s("path", { class: "line", d: path(points.map((point) => [x(point.epsilon), y(point.mean)])) }));
        group.append(...points.filter((point) => !beyond(point.mean)).map((point) => mark(contender, x(point.epsilon), y(point.mean))),
          ...points.filter((point) => beyond(point.mean)).map((point) => arrow(contender, point.epsilon)).filter((one) => one));
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
    const lines = shown.filter(({ contender }) => contender.kind !== "baseline");
    const labels = [], off = [];
    for (const { contender, points } of shown.filter((one) => one.contender.kind === "baseline")) {
      const value = points[points.length - 1].mean, at = y(value), near = labels.find((one) => Math.abs(one.at - at) < 13);
      if (beyond(value)) off.push(`${down ? "↓" : "↑"} ${contender.label} ${short(value)}`);
      else if (near) near.names.push(contender.label);
      else labels.push({ at, names: [contender.label] });
    }
    for (const { at, names } of labels) {
      const room = (place) => Math.min(...lines.map(({ points }) => Math.abs(y(points[place(points)].mean) - at + 8)));
      const start = room(() => 0) >= room((points) => points.length - 1);
      svg.append(s("text", { class: "small halo", x: start ? left : right, y: at - 4, "text-anchor": start ? "start" : "end" }, `${names.join(", ")} (not private)`));
    }
    if (off.length) svg.append(s("text", { class: "small halo", x: right, y: edge + (down ? -6 : 12), "text-anchor": "end" }, off.join(", ")));
  }
  const rank = (contender) => (contender.colour !== null ? 2 : contender.kind === "baseline" ? 1 : 0);

  function point(event) {
    const box = chart.svg.getBoundingClientRect(), zoom = chart.width / box.width;
    const px = (event.clientX - box.left) * zoom, py = (event.clientY - box.top) * zoom;
    const nearest = study().epsilons.reduce((best, epsilon) =>
      Math.abs(chart.x(epsilon) - px) < Math.abs(chart.x(best) - px) ? epsilon : best);
    let near = null, distance = 24;
    for (const { contender, points } of chart.shown) {
      const here = valueAt(contender, points, nearest);
      const away = here ? Math.abs(chart.y(here.mean) - py) : Infinity;
      if (away < distance) [near, distance] = [contender.label, away];
    }
    read(nearest, near);
  }
  const valueAt = (contender, points, epsilon) => points.find((one) => one.epsilon === epsilon);

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
    const rows = chart.shown.map(({ contender, points }) => ({ contender, here: valueAt(contender, points, epsilon) }))
      .filter((row) => row.here).sort((a, b) => better * (b.here.mean - a.here.mean));
    const listed = rows.slice(0, 10), nearRow = rows.find((row) => row.contender.label === near);
    if (nearRow && !listed.includes(nearRow)) listed.push(nearRow);
    box.replaceChildren(h("strong", {}, `ε = ${epsilonText(epsilon)}`), h("table", {}, ...listed.map(({ contender, here }) => {
      const pair = here.point[key];
      return h("tr", { class: contender.label === near ? "near" : null }, h("td", {}, swatch(contender)), h("td", {}, contender.label),
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
    const listed = [...study().contenders].sort((a, b) => rank(b) - rank(a));
    byId("legend").replaceChildren(...listed.map((contender) => {
      const button = h("button", { type: "button", "data-label": contender.label, "aria-pressed": String(!state.hidden.has(contender.label)) },
        swatch(contender), h("span", {}, contender.label, contender.remark ? h("small", {}, ` ${contender.remark}`) : null));
      button.addEventListener("click", () => {
        if (!state.hidden.delete(contender.label)) state.hidden.add(contender.label);
        button.setAttribute("aria-pressed", String(!state.hidden.has(contender.label)));
        drawChart();
      });
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => emphasise(contender.label));
      for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => emphasise(null));
      return button;
    }));
    byId("best").hidden = !study().contenders.some(isPale);
  }

  function drawTable() {
    const { epsilons, contenders } = study(), metric = state.metric, { better, title } = METRICS[metric];
    const cell = (contender, epsilon) => contender.points.find((one) => one.epsilon === epsilon)?.[metric] ?? null;
    const columns = [
      { key: "label", text: "contender", value: (contender) => contender.label },
      ...epsilons.map((epsilon) => ({ key: String(epsilon), text: `ε = ${epsilonText(epsilon)}`, epsilon,
        value: (contender) => cell(contender, epsilon)?.mean ?? null })),
      { key: "seconds", text: "time per model", value: (contender) => contender.seconds },
    ];
    const sorted = [...contenders], by = columns.find((column) => column.key === state.sort.column);
    if (by) {
      const sign = state.sort.ascending ? 1 : -1;
      sorted.sort((a, b) => {
        const [one, other] = [by.value(a), by.value(b)];
        if (one === null || other === null) return (one === null) - (other === null);
        return sign * (typeof one === "string" ? one.localeCompare(other) : one - other);
      });
    }
    const best = (epsilon) => {
      const values = contenders.filter(isPrivate)
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
    const body = sorted.map((contender) => h("tr", {},
      h("th", { scope: "row" }, contender.label, contender.remark ? h("small", {}, contender.remark) : null),
      ...epsilons.map((epsilon) => {
        const pair = cell(contender, epsilon);
        if (!pair) return h("td", { title: "no result: skipped, or not defined for this contender" }, "–");
        const wins = isPrivate(contender) && pair.mean === bests.get(epsilon);
        return h("td", { class: wins ? "best" : null }, number(pair.mean, metric), h("small", {}, errorText(pair, metric)));
      }),
      h("td", {}, time(contender.seconds))));
    byId("table").replaceChildren(h("thead", {}, head), h("tbody", {}, ...body));
    byId("table-note").textContent = `${title}: mean ${study().error}.${better ? " Marked: the best private mean at each ε." : ""}`;
  }

  function drawCost() {
    const sorted = [...study().contenders].sort((a, b) => a.seconds - b.seconds);
    const most = Math.max(sorted[sorted.length - 1].seconds, 1e-6), least = Math.max(sorted[0].seconds, 1e-6);
    const wide = most > 300 * least;
    const length = (seconds) => (wide ? Math.max(0, Math.log10(10 * seconds / least) / Math.log10(10 * most / least)) : seconds / most);
    const total = sorted.reduce((sum, one) => sum + one.seconds * one.points.reduce((runs, at) => runs + at.runs, 0), 0);
    const models = sorted.reduce((sum, one) => sum + one.points.reduce((runs, at) => runs + at.runs, 0), 0);
    byId("cost-note").textContent = `Training time per model; models that share their passes over the rows share its cost. `
      + `All ${models} models: ${time(total)}.${wide ? " The bars are on a logarithmic scale." : ""}`;
    byId("cost").replaceChildren(h("div", { class: "cost" }, ...sorted.flatMap((contender) => {
      const bar = h("i");
      bar.style.width = `${100 * length(contender.seconds)}%`;
      return [h("span", {}, contender.label), h("span", { "aria-hidden": "true" }, bar), h("span", {}, time(contender.seconds))];
    })));
  }

  function drawSettings() {
    const { facts, versions, machine, skipped, contenders } = study();
    const list = (pairs) => h("dl", {}, ...pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    const tunings = { rule: "fixed by a public rule", search: "chosen privately, paid from the budget", oracle: "chosen on the test rows: not private" };
    const used = contenders.filter((contender) => contender.settings.length).map((contender) => h("details", {},
      h("summary", {}, `${contender.label}: ${tunings[contender.tuning] ?? contender.tuning}${contender.kind === "paper" ? "; the paper's accounting" : ""}`),
      ...contender.settings.map(({ used: values, epsilons }) => h("p", { class: "quiet" },
        `ε = ${epsilons.map(epsilonText).join(", ")}: ${Object.entries(values).map(([name, value]) => `${name} = ${value}`).join(", ")}`))));
    byId("settings").replaceChildren(
      list(facts),
      h("h3", {}, "Skipped"),
      skipped.length ? h("ul", { id: "skipped" }, ...skipped.map((part) => h("li", {},
        `${part.label}${part.epsilons.length ? ` at ε = ${part.epsilons.map(epsilonText).join(", ")}` : ""}: ${part.reason}`)))
        : h("p", { class: "quiet" }, "Nothing was skipped."),
      ...(used.length ? [h("h3", {}, "Settings of each contender"), ...used] : []),
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
    for (const contender of study().contenders) state.hidden[isPale(contender) ? "add" : "delete"](contender.label);
    drawStudy();
  });
  byId("nobody").addEventListener("click", () => {
    for (const contender of study().contenders) state.hidden.add(contender.label);
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
