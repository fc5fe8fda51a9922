/* Q̂ at work: maps of one run with a slider over training time. */
const MAPS = {
  visits: null,
  observed: "Cividis",
  completed: "Cividis",
  choice: "Viridis" /* a few actions have colours of their own */,
  uncertainty: "Viridis",
}; /* and their colours */

/* One colour for each of a few actions, without shades between them. */
function actionColours(actions) {
  if (actions > report.colours.length) return MAPS.choice;
  return Array.from({ length: actions }, (_, k) => report.colours[k]).flatMap((colour, k) => [
    [k / actions, colour],
    [(k + 1) / actions, colour],
  ]);
}

class HeatSection {
  constructor(root, task) {
    Object.assign(this, { root, task, at: 0, timer: null });
    this.select = root.querySelector("select");
    this.slider = root.querySelector("input[type=range]");
    this.play = root.querySelector(".play");
    this.out = root.querySelector("output");
    this.parts = {};
    for (const box of root.querySelectorAll(".plot")) {
      const kind = box.dataset.chart;
      const others = { singular: () => singularChart(this.heat), choices: () => choicesChart(this.choices) };
      const build = others[kind] || (() => mapChart(this.heat, kind, this.at));
      this.parts[kind] = new Chart(box, build);
    }
    this.select.addEventListener("change", () => this.choose());
    if (this.slider) {
      this.slider.addEventListener("input", () => this.move(Number(this.slider.value)));
      this.play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
    }
    const rows = { singular: () => singularRows(this.heat), choices: () => choicesRows(this.choices) };
    for (const details of root.querySelectorAll("details")) fillOnOpen(details, rows[details.dataset.table]);
    this.choose();
  }

  get method() {
    return Number(this.select.value);
  }

  get heat() {
    return this.task.heat[this.method];
  }

  get choices() {
    return this.task.choices[this.method];
  }

  choose() {
    this.stop();
    const { heat } = this;
    for (const [kind, part] of Object.entries(this.parts)) {
      const drawn = heat && (kind === "singular" ? heat.singular : heat.layers[kind]);
      const there = kind === "choices" ? this.choices : drawn;
      part.box.closest("figure").hidden = !there;
    }
    const timed = this.root.querySelector(".timeline");
    if (timed) timed.hidden = !heat;
    this.root.querySelector(".on-paper").textContent = `: ${report.methods[this.method].name}`;
    this.root.querySelector(".slice").textContent = heat ? heat.words : "";
    const rank = this.root.querySelector(".rank");
    if (rank) rank.textContent = rankWords(heat);
    if (heat) {
      this.slider.max = heat.steps.length - 1;
      this.move(heat.steps.length - 1);
    }
    for (const part of Object.values(this.parts)) part.refresh();
  }

  move(at) {
    this.at = at;
    this.slider.value = at;
    const words = `after ${number(this.heat.steps[at])} steps`;
    this.slider.setAttribute("aria-valuetext", words);
    this.out.textContent = words;
    for (const kind of Object.keys(this.heat.layers)) {
      const part = this.parts[kind];
      if (part.stale || !part.box.data) continue;
      const customdata = this.heat.layers[kind].cells[at];
      Plotly.restyle(part.box, { z: [cellsOf(kind, customdata)], customdata: [customdata] });
    }
  }

  start() {
    if (this.at >= this.heat.steps.length - 1) this.move(0);
    this.play.textContent = "Pause";
    this.timer = setInterval(() => (this.at < this.heat.steps.length - 1 ? this.move(this.at + 1) : this.stop()), 650);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.play) this.play.textContent = "Play";
  }
}

/* What is drawn of a layer: of visits their logarithm. */
const cellsOf = (kind, rows) =>
  kind === "visits" ? rows.map((row) => row.map((count) => (count ? Math.log10(count) : null))) : rows;

/* One layer of a run's maps after snapshot `at`. */
function mapChart(heat, kind, at) {
  const layer = heat && heat.layers[kind];
  if (!layer) return null;
  const colours = MAPS[kind];
  const log = kind === "visits";
  const action = kind === "choice";
  const actions = layer.to + 0.5;
  const few = action && actions <= report.colours.length;
  const top = log ? Math.max(1, Math.log10(layer.to)) : layer.to;
  const decades = [0, 1, 2, 3, 4, 5, 6].filter((power) => power <= top);
  const centres = ([low, high]) =>
    Array.from({ length: heat.size }, (_, k) => low + ((k + 0.5) * (high - low)) / heat.size);
  const trace = {
    type: "heatmap",
    z: cellsOf(kind, layer.cells[at]),
    customdata: layer.cells[at],
    x: centres(heat.x),
    y: centres(heat.y),
    zmin: log ? 0 : layer.from,
    zmax: top,
    colorscale: log
      ? [
          [0, faint(variable("--mark"), 0.18)],
          [1, variable("--deep")],
        ]
      : action
        ? actionColours(actions)
        : colours,
    hoverongaps: false,
    hovertemplate: `${action ? "action " : ""}%{customdata:.4~g} ${log ? "steps" : ""}<br>at (%{x:.3~g}, %{y:.3~g})<extra></extra>`,
    colorbar: {
      thickness: 9,
      outlinewidth: 0,
      len: 1,
      lenmode: "fraction",
      tickfont: { size: 11, color: variable("--soft") },
      ...(log ? { tickvals: decades, ticktext: decades.map((power) => number(10 ** power)) } : { nticks: 5 }),
      ...(few ? { tickvals: Array.from({ length: actions }, (_, k) => k) } : {}),
    },
  };
  const nticks = chosen.paper ? 3 : 5;
  const quiet = (name) => ({ title: plain(name), showgrid: false, nticks, tickangle: 0, automargin: false });
  return {
    traces: [trace],
    layout: layout({
      margin: { l: 58, r: 52, t: 6, b: 42 },
      hovermode: "closest",
      xaxis: axis(quiet(heat.names[0])),
      yaxis: axis(quiet(heat.names[1])),
    }),
  };
}
