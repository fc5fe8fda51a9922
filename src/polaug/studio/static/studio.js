/* Follows the runs that are ticked: asks the studio's own server once a second, and draws what has changed. */
const EVERY = 1000; /* milliseconds between two looks at the runs */
const FRAME = 300; /* and between two pictures of an agent */
const FIRST = 4; /* runs that are shown before anything is chosen */
const GUIDE = "#D55E00";
const AGENT = "#0072B2";
const status_ = document.getElementById("status");
const board = document.getElementById("board");
const list = document.getElementById("runs");
const fromHash = () => location.hash.slice(1).split("&").filter(Boolean).map(decodeURIComponent);
let wanted = fromHash();
let automatic = !wanted.length; /* until the reader ticks something, runs join as they start */
let listed = [];
let shape = "";
let tag = "";
let dots = {}; /* which snapshot each run's maps show, where the reader has moved back */
drawing = false;

/* What of the logged scalars is drawn: a pattern for the name, what it is called, and how it is read. */
const SCALARS = {
  guide: [
    [/\/p_guide$/, "p: probability that the guide is better"],
    [/\/(guide|explorer)_share$/, "share of steps that the guide took"],
    [/\/target_share$/, "target share of the guide"],
    [/\/teaching$/, "weight of teaching"],
  ],
  teaching: [
    [/^augment\w*\/(\w*_)?loss$/, "teaching loss"],
    [/^augment\w*\/(\w*_)?disagreement$/, "agreement with the guide", (value) => 1 - value],
    [/^augment\w*\/(\w*_)?agreement$/, "agreement with the guide"],
  ],
  train: [[/^train\/(\w*_)?loss$/, null]],
};
const MAPS_SHOWN = { completed: "Completed Q̂", visits: "Visits", uncertainty: "Uncertainty of Q̂" };

const found = (card, group) =>
  Object.entries(card.scalars || {}).flatMap(([name, { x, y }]) => {
    const rule = SCALARS[group].find(([pattern]) => pattern.test(name));
    return rule ? [{ name: rule[1] || name, x, y: rule[2] ? y.map(rule[2]) : y }] : [];
  });

function scalarChart(card, group) {
  const lines = found(card, group);
  if (!lines.length) return null;
  const right = (line) => group === "teaching" && line.name.startsWith("agreement");
  const share = { range: [-0.02, 1.04], tickformat: ".0%", tickmode: "linear", tick0: 0, dtick: 0.5 };
  return {
    traces: lines.map((line, k) => ({
      x: line.x,
      y: line.y,
      name: plain(line.name),
      mode: "lines+markers",
      marker: { size: 4 },
      line: { color: report.colours[k % report.colours.length], width: 2 },
      yaxis: right(line) ? "y2" : "y",
      hovertemplate: "%{y:.3~g}",
    })),
    layout: layout({
      showlegend: true,
      hovermode: "x unified",
      margin: { l: 48, r: 44, t: 6, b: 38 },
      xaxis: axis({ title: TITLES.steps, showgrid: false, rangemode: "tozero" }),
      yaxis: axis(group === "guide" ? share : {}),
      ...(lines.some(right) ? { yaxis2: { ...axis(share), overlaying: "y", side: "right", showgrid: false } } : {}),
    }),
  };
}

/* Every training episode as a point in the colour of what drove it, and the evaluations of the agent as a line. */
function returnsChart(card) {
  const { agent, guide, evaluation } = card.returns;
  const points = (name, { x, y }, color) => ({ x, y, name, mode: "markers", marker: { color, size: 5, opacity: 0.75 }, hovertemplate: "%{y:.4~g}" });
  const traces = [];
  if (guide.x.length) traces.push(points("guide", guide, GUIDE));
  if (agent.x.length) traces.push(points("agent, in training", agent, AGENT));
  if (evaluation) traces.push({ ...points("agent alone", evaluation, AGENT), mode: "lines", line: { color: AGENT, width: 2.4 } });
  return {
    traces,
    layout: layout({
      showlegend: true,
      hovermode: "x unified",
      margin: { l: 48, r: 14, t: 6, b: 38 },
      xaxis: axis({ title: TITLES.steps, showgrid: false, rangemode: "tozero" }),
      yaxis: axis({ title: "return" }),
    }),
  };
}

const cardOf = (id) => report.runs.find((card) => card.id === id);
const taskOf = (card) => report.tasks.findIndex((task) => task.name === card.task);
const methodOf = (card) => report.methods.findIndex((method) => method.name === card.label);
const heatOf = (card) => (report.tasks[taskOf(card)] || { heat: {} }).heat[methodOf(card)];
const snapshot = (card) => Math.min(dots[card.id] ?? Infinity, heatOf(card).steps.length - 1);

/* -- the page's parts, made anew when there are others than before ------------------------------------------------ */

const plot = (attributes, label) => element("div", { class: "plot waiting", role: "img", "aria-label": label, ...attributes });
const figure = (title, ...parts) => element("figure", { class: "run-part" }, element("h3", {}, title), ...parts);

const BORDERS = { solid: "solid", dash: "dashed", dot: "dotted", dashdot: "dashed" };

function swatch(card) {
  const made = element("i", { class: "swatch" });
  const method = report.methods[methodOf(card)];
  if (method) made.style.borderTop = `3px ${BORDERS[method.dash]} ${method.colour}`;
  return made;
}

function taskSection(task, k) {
  const kinds = ["evaluation", "training"].filter((kind) => Object.values(task.curves).some((each) => each[kind]));
  const charts = kinds.map((kind) => {
    const box = plot({ "data-task": k, "data-kind": kind }, kind);
    box.classList.add("tall");
    if (kind === "training" && task.explored) box.style.setProperty("--rows", task.methods.length);
    const key = element("p", { class: "key soft" }, element("span", {}, element("i", { class: "led" }), "the guide drives"), element("span", {}, element("i"), "the agent drives"));
    const table = element("details", { "data-table": kind }, element("summary", {}, "Table"), element("div", { class: "scroll", tabindex: 0 }));
    const title = kind === "training" ? "Training returns" : "The agent alone";
    return element("figure", { class: "card" }, element("h3", {}, title), box, ...(kind === "training" && task.explored ? [key] : []), table);
  });
  const mine = report.runs.filter((card) => card.task === task.name);
  const cards = mine.map(runCard);
  const legend = element("p", { class: "lines soft" }, ...mine.map((card) => element("span", {}, swatch(card), card.label)));
  const goal = task.threshold === null ? "no threshold" : `solved at ${number(task.threshold)}`;
  const head = element("div", { class: "heading" }, element("h2", {}, task.name), element("p", { class: "soft" }, goal));
  return element("section", { class: "task" }, head, legend, element("div", { class: "pair" }, ...charts), element("div", { class: "run-cards" }, ...cards));
}

function runCard(card) {
  const head = element("div", { class: "run-head" }, element("h3", {}, swatch(card), card.label || card.id), element("span", { class: "state" }), element("span", { class: "soft said" }));
  const picture = element("img", { alt: `The agent of ${card.label} at play`, hidden: "" });
  const stage = figure("The agent at play", element("div", { class: "stage" }, picture), element("figcaption", {}, "Loading the environment…"));
  const heat = card.label && heatOf(card);
  const maps = Object.entries(MAPS_SHOWN).filter(([kind]) => heat && heat.layers[kind]);
  const boxes = maps.map(([kind, title]) => figure(title, plot({ "data-map": kind }, `${title}: ${card.label}`)));
  const made = element("article", { class: "card run", "data-run": card.id }, head, element("progress", { max: 1, value: 0, "aria-label": "Steps done" }), element("p", { class: "fault" }), element("div", { class: "maps" }, stage, ...boxes));
  if (maps.length) {
    const slider = element("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Training time" });
    made.append(element("div", { class: "timeline" }, slider, element("output")));
  }
  const part = (title, name) => made.append(figure(title, plot({ "data-part": name }, `${title}: ${card.label}`)));
  if (card.returns) part("Returns of guide and agent", "returns");
  if (found(card, "guide").length) part("What drives", "guide");
  if (found(card, "teaching").length) part("Teaching", "teaching");
  if (found(card, "train").length) part("The agent’s own training", "train");
  return made;
}

function rebuild() {
  for (const chart of charts) {
    watcher.unobserve(chart.box);
    Plotly.purge(chart.box);
  }
  charts.length = 0;
  const others = report.runs.filter((card) => taskOf(card) < 0).map(runCard);
  const waiting = others.length ? [element("section", { class: "task" }, element("div", { class: "run-cards" }, ...others))] : [];
  board.replaceChildren(...report.tasks.map(taskSection), ...waiting);
  wireCurves();
  for (const made of board.querySelectorAll(".run")) {
    const card = () => cardOf(made.dataset.run);
    for (const box of made.querySelectorAll("[data-part]")) {
      const kind = box.dataset.part;
      new Chart(box, () => (kind === "returns" ? returnsChart(card()) : scalarChart(card(), kind)));
    }
    for (const box of made.querySelectorAll("[data-map]"))
      new Chart(box, () => mapChart(heatOf(card()), box.dataset.map, snapshot(card())));
    const slider = made.querySelector("input[type=range]");
    if (slider)
      slider.addEventListener("input", () => {
        const last = Number(slider.value) >= Number(slider.max);
        if (last) delete dots[made.dataset.run]; /* at the end it follows again */
        else dots[made.dataset.run] = Number(slider.value);
        fill(made, card());
        for (const box of made.querySelectorAll("[data-map]")) box.chart.refresh();
      });
  }
}

function fill(made, card) {
  const state = made.querySelector(".state");
  state.className = `state ${card.state}`;
  state.textContent = card.state;
  const steps = card.steps ? `${number(card.step)} of ${number(card.steps)} steps` : `${number(card.step)} steps`;
  const drives = card.driver && card.state === "running" ? `, ${card.driver === "agent" ? "the agent" : "the guide"} drove the last episode` : "";
  made.querySelector(".said").textContent = card.step === undefined ? "" : `${steps}, ${number(card.episodes)} episodes${drives}`;
  made.querySelector("progress").value = card.state === "finished" ? 1 : card.steps ? Math.min(1, card.step / card.steps) : 0;
  made.querySelector(".fault").textContent = card.fault;
  const heat = card.label && heatOf(card);
  const slider = made.querySelector("input[type=range]");
  if (!heat || !slider) return;
  slider.max = heat.steps.length - 1;
  slider.value = snapshot(card);
  made.querySelector("output").textContent = `after ${number(heat.steps[snapshot(card)])} steps`;
}

/* -- looking ------------------------------------------------------------------------------------------------------ */

async function asked(path, options) {
  const answer = await fetch(path, options);
  if (answer.ok || answer.status === 304) return answer;
  const { error } = await answer.json().catch(() => ({ error: `the studio answered ${answer.status}` }));
  throw Object.assign(new Error(error), { status: answer.status });
}

const query = (ids) => ids.map((id) => `run=${encodeURIComponent(id)}`).join("&");

/* Rows stay where they are, with the reader's mouse or focus on them: new runs come on top, ended ones change in place. */
function drawList() {
  const rows = new Map([...list.children].map((row) => [row.querySelector("input").value, row]));
  const added = listed.filter((run) => !rows.has(run.id)).map(listRow);
  list.prepend(...added);
  for (const row of added) rows.set(row.querySelector("input").value, row);
  for (const run of listed) {
    const row = rows.get(run.id);
    rows.delete(run.id);
    row.querySelector("input").checked = wanted.includes(run.id);
    const state = row.querySelector(".state");
    state.className = `state ${run.state}`;
    state.textContent = run.state;
  }
  for (const gone of rows.values()) gone.remove();
}

const listRow = ({ id }) =>
  element("li", {}, element("label", {}, element("input", { type: "checkbox", value: id }), element("span", { class: "state" }), id));

function choose(ids) {
  if (ids.join("&") === wanted.join("&")) return;
  wanted = ids;
  if (!automatic) history.replaceState(null, "", `#${ids.map(encodeURIComponent).join("&")}`);
  shape = "";
  tag = "";
}

list.addEventListener("change", () => {
  automatic = false;
  choose([...list.querySelectorAll("input:checked")].map((box) => box.value));
  look();
});

async function lookAtRuns() {
  const { root, runs } = await (await asked("api/runs")).json();
  document.title = `${root}: polaug studio`;
  const key = (all) => JSON.stringify(all.map(({ id, state }) => [id, state]).sort());
  const changed = key(runs) !== key(listed);
  listed = runs;
  const there = wanted.filter((id) => runs.some((run) => run.id === id));
  const running = runs.filter((run) => run.state === "running").map((run) => run.id);
  const others = there.length || running.length ? there : runs.map((run) => run.id);
  const before = wanted;
  choose(automatic ? [...new Set([...running, ...others])].slice(0, FIRST).sort() : there);
  if (changed || before !== wanted) drawList();
  status_.textContent = runs.length ? `${root}: ${runs.length} run${runs.length === 1 ? "" : "s"}, ${running.length} active.` : `${root}: no runs yet. They appear here when they start.`;
}

async function lookAtBoard() {
  const answer = await asked(`api/board?${query(wanted)}`, { headers: tag ? { "If-None-Match": tag } : {} });
  if (answer.status === 304) return;
  tag = answer.headers.get("ETag") || "";
  report = await answer.json();
  const made = JSON.stringify([
    report.tasks.map((task) => [task.name, task.explored, Object.values(task.curves).map(Object.keys)]),
    report.runs.map((card) => [card.id, card.label, Object.keys(card.scalars || {}), Object.keys((card.label && heatOf(card) || { layers: {} }).layers)]),
  ]);
  if (made !== shape) rebuild();
  shape = made;
  for (const card of board.querySelectorAll(".run")) fill(card, cardOf(card.dataset.run));
  refreshAll();
}

let looking = false;
async function look() {
  if (looking || document.hidden) return;
  looking = true;
  try {
    await lookAtRuns();
    await lookAtBoard();
    status_.classList.remove("lost");
  } catch (fault) {
    tag = "";
    status_.classList.add("lost");
    status_.textContent = fault.status ? fault.message : "The studio does not answer. Trying again…";
  }
  looking = false;
}

/* The agents in sight play, one picture after the other. */
async function play() {
  for (const made of document.hidden ? [] : board.querySelectorAll(".run")) {
    const card = cardOf(made.dataset.run);
    const stage = made.querySelector(".stage");
    const { top, bottom } = stage.getBoundingClientRect();
    if (!card || bottom < 0 || top > innerHeight) continue;
    const caption = stage.parentNode.querySelector("figcaption");
    if (!card.plays) {
      caption.textContent = "No network yet: the run saves it at its first evaluation.";
      continue;
    }
    try {
      const answer = await asked(`api/frame?${query([card.id])}`);
      const image = stage.querySelector("img");
      const before = image.src;
      image.src = URL.createObjectURL(await answer.blob());
      image.hidden = false;
      URL.revokeObjectURL(before);
      const [step, total, ended] = ["X-Step", "X-Return", "X-Ended"].map((name) => answer.headers.get(name));
      caption.textContent = `Step ${number(Number(step))}, return ${number(Number(total))}${ended ? `, ${ended}` : ""}.`;
    } catch (fault) {
      if (fault.status) caption.textContent = fault.message;
    }
  }
  setTimeout(play, FRAME);
}

setInterval(look, EVERY);
document.addEventListener("visibilitychange", look);
look();
play();
window.polaugStudio = { charts, look, report: () => report };
