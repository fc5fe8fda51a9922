/* Learning curves: a line and its band for each method, the threshold, and below the axis what drove. */
const curveOf = (task, method, kind) => {
  const axes = task.curves[method] && task.curves[method][kind];
  return axes && axes[chosen.axis];
};
const shownMethods = (task) => task.methods.filter((method) => !chosen.hidden.has(method));

function curveTraces(task, kind) {
  const traces = [];
  for (const method of shownMethods(task)) {
    const curve = curveOf(task, method, kind);
    if (!curve) continue;
    const { name, colour, dash } = report.methods[method];
    const [centre, low, high] = curve[chosen.statistic].map((values) => smoothed(values));
    const band = bandTrace(curve.x, low, high, colour);
    if (band) traces.push(band);
    if (chosen.seeds && curve.seeds)
      for (const y of curve.seeds)
        traces.push({
          x: curve.x,
          y: smoothed(y),
          mode: "lines",
          line: { color: faint(colour, 0.45), width: 1 },
          hoverinfo: "skip",
          showlegend: false,
        });
    const range = low[0] === null ? "" : "  (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})";
    const led = (k) => (curve.share && curve.share[k] > 0 ? `, guide ${Math.round(100 * curve.share[k])} %` : "");
    traces.push({
      x: curve.x,
      y: centre,
      mode: curve.x.length > 1 ? "lines" : "markers",
      name: plain(name),
      meta: method,
      line: { color: colour, width: 2.2, dash },
      marker: { color: colour, size: 8 },
      customdata: curve.x.map((_, k) => [low[k], high[k], led(k)]),
      hovertemplate: `%{y:.4~g}${range}%{customdata[2]}`,
    });
  }
  return traces;
}

/* Methods whose lines lie on each other, from end to end within a hundredth of the picture: only one of them is seen. */
function coinciding(traces) {
  const lines = traces.filter((trace) => "meta" in trace && trace.x.length > 1);
  const all = lines.flatMap((line) => line.y);
  const near = 0.01 * (Math.max(...all) - Math.min(...all));
  const at = (line, x) => line.y[Math.max(0, line.x.findLastIndex((place) => place <= x))];
  const alike = (a, b) => {
    const end = Math.min(a.x.at(-1), b.x.at(-1));
    return Array.from({ length: 25 }, (_, k) => (end * k) / 24).every((x) => Math.abs(at(a, x) - at(b, x)) <= near);
  };
  const groups = [];
  for (const line of lines) {
    const group = groups.find(([first]) => alike(first, line));
    if (group) group.push(line);
    else groups.push([line]);
  }
  return groups.filter((group) => group.length > 1);
}

/* One row for each method: filled with its colour where the guide drove, bare where the agent did. */
function stripTraces(task) {
  return shownMethods(task).flatMap((method, row) => {
    const curve = curveOf(task, method, "training");
    if (!curve || !curve.share) return [];
    return [
      {
        type: "heatmap",
        x: [0, ...curve.x],
        y: [row - 0.36, row + 0.36],
        z: [curve.share],
        zmin: 0,
        zmax: 1,
        yaxis: "y2",
        colorscale: [
          [0, variable("--track")],
          [1, report.methods[method].colour],
        ],
        showscale: false,
        name: plain(report.methods[method].name),
        hovertemplate: "guide %{z:.0%}",
      },
    ];
  });
}

function curveChart(task, kind) {
  const traces = curveTraces(task, kind);
  const strip = kind === "training" && task.explored ? stripTraces(task) : [];
  const rows = shownMethods(task).length;
  const share = strip.length ? Math.min(0.34, 0.05 + 0.022 * rows) : 0;
  const made = layout({
    margin: { l: 52, r: 24, t: 30, b: 44 } /* room for the tools above the picture, and for half of the last label */,
    dragmode: touch.matches ? false : "zoom",
    hovermode: "x unified",
    uirevision: chosen.axis /* a zoom stays while methods come and go */,
    xaxis: axis({
      title: TITLES[chosen.axis],
      showgrid: false,
      rangemode: "tozero",
      ticks: "outside",
      ticklen: 4,
      ticklabeloverflow: "allow" /* the budget is the number that is looked for */,
      anchor: strip.length ? "y2" : "y",
    }),
    yaxis: axis({
      title: kind === "training" ? "return of an episode" : "return of the agent alone",
      domain: [share && share + 0.03, 1],
    }),
    shapes: [],
    annotations: [],
  });
  for (const group of coinciding(traces)) {
    const [{ x, y }] = group;
    made.annotations.push({
      x: x.at(-1),
      y: y.at(-1),
      xanchor: "right",
      yanchor: "bottom",
      showarrow: false,
      text: `${group.map((line) => line.name).join(", ")}: the same line`,
      font: { size: 11.5, color: variable("--soft") },
    });
  }
  if (strip.length) {
    made.yaxis2 = {
      domain: [0, share],
      range: [rows - 0.5, -0.5],
      fixedrange: true,
      showticklabels: false,
      showgrid: false,
      zeroline: false,
      ticks: "",
    };
  }
  if (task.threshold !== null) {
    const line = { color: variable("--soft"), width: 1.2, dash: "4px,4px" };
    made.shapes.push({
      type: "line",
      xref: "paper",
      x0: 0,
      x1: 1,
      y0: task.threshold,
      y1: task.threshold,
      line,
      layer: "below",
    });
    made.annotations.push({
      xref: "paper",
      x: 0.005,
      y: task.threshold,
      xanchor: "left",
      yanchor: "bottom",
      showarrow: false,
      text: `solved at ${number(task.threshold)}`,
      font: { size: 11.5, color: variable("--soft") },
      bgcolor: faint(variable("--card"), 0.85) /* curves run through it */,
      borderpad: 1,
    });
    const marker = { opacity: 0 }; /* so that the threshold is always within the picture */
    traces.push({ x: [0], y: [task.threshold], mode: "markers", marker, hoverinfo: "skip", showlegend: false });
  }
  return { traces: [...traces, ...strip], layout: made, tools: true };
}

/* About twelve rows of what the chart shows, in words. */
function curveRows(task, kind) {
  const methods = shownMethods(task).filter((method) => curveOf(task, method, kind));
  const longest = methods.map((method) => curveOf(task, method, kind).x).sort((a, b) => b.length - a.length)[0] || [];
  const step = Math.max(1, Math.ceil(longest.length / 12));
  const picked = longest.filter((_, k) => (longest.length - 1 - k) % step === 0);
  const cell = (method, x) => {
    const curve = curveOf(task, method, kind);
    const k = curve.x.findIndex((at) => at >= x * (1 - 1e-9));
    if (k < 0) return "–";
    const [centre, low, high] = curve[chosen.statistic];
    return low[k] === null ? number(centre[k]) : `${number(centre[k])} (${number(low[k])} to ${number(high[k])})`;
  };
  const head = [TITLES[chosen.axis], ...methods.map((method) => report.methods[method].name)];
  return [head, ...picked.map((x) => [number(x), ...methods.map((method) => cell(method, x))])];
}

/* What a screen reader is told. */
function curveWords(task, kind) {
  const what = kind === "training" ? "Return of training episodes" : "Return of the agent alone";
  const ends = shownMethods(task).flatMap((method) => {
    const curve = curveOf(task, method, kind);
    if (!curve || !curve.x.length) return [];
    const centre = curve[chosen.statistic][0];
    return [`${report.methods[method].name} from ${number(centre[0])} to ${number(centre[centre.length - 1])}`];
  });
  return `${what} on ${task.name} by ${TITLES[chosen.axis]}: ${ends.join("; ") || "nothing to show"}.`;
}
