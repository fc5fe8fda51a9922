/* Beside the maps: the singular values of Q̂ over time, and which arm of the explorer drove. */
function singularChart(heat) {
  if (!heat || !heat.singular) return null;
  const [first] = heat.singular;
  const most = Math.min(heat.singular.length, 10);
  const traces = heat.singular.slice(0, most).map((values, k) => ({
    x: heat.all_steps,
    y: values.map((value, t) => (value && first[t] ? Math.max(value / first[t], 1e-9) : null)),
    mode: "lines+markers",
    name: `σ${k + 1} / σ1`,
    line: { width: 2, color: report.colours[k % report.colours.length] },
    marker: { size: 5 },
    hovertemplate: "%{y:.2~g}",
  }));
  const least = Math.min(0.1, ...traces.flatMap((trace) => trace.y.filter((value) => value)));
  return {
    traces,
    layout: layout({
      hovermode: "x unified",
      showlegend: true,
      xaxis: axis({ title: TITLES.steps, showgrid: false, rangemode: "tozero" }),
      yaxis: axis({
        title: "relative to the first",
        type: "log",
        exponentformat: "power",
        dtick: 1,
        range: [Math.max(-6, Math.log10(least) - 0.2), 0.1],
      }),
    }),
  };
}

function singularRows(heat) {
  const head = ["steps", ...heat.singular.map((_, k) => `σ${k + 1}`), "effective rank"];
  const row = (step, t) => [number(step), ...heat.singular.map((values) => number(values[t])), number(heat.rank[t], 3)];
  return [head, ...heat.all_steps.map(row)];
}

function rankWords(heat) {
  const known = heat && heat.rank ? heat.rank.filter((rank) => rank !== null) : [];
  if (!known.length) return "";
  const [first, last] = [known[0], known[known.length - 1]].map((rank) => number(rank, 3));
  return `Effective rank: ${first} at first, ${last} at the end, of at most ${heat.singular.length}.`;
}

function choicesChart(choices) {
  if (!choices) return null;
  const traces = choices.members.map((member, k) => ({
    type: "bar",
    x: choices.x,
    y: choices.shares[k],
    name: plain(member),
    marker: { color: choices.colours[k] },
    width: choices.width,
    customdata: choices.runs,
    hovertemplate: "%{y:.0%} of %{customdata}",
  }));
  return {
    traces,
    layout: layout({
      barmode: "stack",
      bargap: 0,
      hovermode: "x unified",
      showlegend: true,
      xaxis: axis({ title: "episode of the explorer", showgrid: false }),
      yaxis: axis({ title: "share of runs", range: [0, 1], tickformat: ".0%", showgrid: false }),
    }),
  };
}

function choicesRows({ members, x, shares, runs }) {
  const row = (at, k) => [number(at), runs[k], ...shares.map((share) => `${Math.round(100 * share[k])} %`)];
  return [["episode", "runs", ...members], ...x.map(row)];
}
