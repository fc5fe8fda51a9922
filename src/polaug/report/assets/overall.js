/* All tasks at once: interquartile means with their intervals, and performance profiles. */
function overallChart(kind) {
  const { scores, profile } = report.overall;
  const methods = scores.map((score) => score.method).filter((method) => !chosen.hidden.has(method));
  if (kind === "scores") {
    const rows = scores.filter((score) => !chosen.hidden.has(score.method));
    const y = rows.map((_, k) => rows.length - 1 - k);
    const traces = [
      {
        x: rows.map((row) => row.value[0]),
        y,
        mode: "markers",
        hovertemplate: "%{text}<extra></extra>",
        text: rows.map((row) => {
          const [value, low, high] = row.value.map((each) => number(each, 3));
          return `${plain(report.methods[row.method].name)}: ${value}${row.value[1] === null ? "" : ` (${low} to ${high})`}`;
        }),
        marker: { size: 10, color: rows.map((row) => report.methods[row.method].colour) },
        error_x: {
          type: "data",
          symmetric: false,
          array: rows.map(({ value }) => (value[2] === null ? 0 : value[2] - value[0])) /* few seeds have no interval */,
          arrayminus: rows.map(({ value }) => (value[1] === null ? 0 : value[0] - value[1])),
          color: variable("--soft"),
          thickness: 1.6,
          width: 5,
        },
      },
    ];
    const names = rows.map((row) => plain(report.methods[row.method].name));
    return {
      traces,
      layout: layout({
        showlegend: false /* the axis has the names */,
        hovermode: "closest",
        xaxis: axis({ title: "normalised score" }),
        yaxis: axis({ tickvals: y, ticktext: names, showgrid: false, range: [-0.7, rows.length - 0.3] }),
      }),
    };
  }
  const traces = methods.flatMap((method) => {
    const { name, colour, dash } = report.methods[method];
    const [centre, low, high] = profile.curves[method];
    const band = bandTrace(profile.taus, low, high, colour);
    const line = {
      x: profile.taus,
      y: centre,
      mode: "lines",
      name: plain(name),
      line: { color: colour, width: 2.2, dash, shape: "hv" },
      customdata: centre.map((_, k) => [low[k], high[k]]),
      hovertemplate: band ? "%{y:.0%}  (%{customdata[0]:.0%} to %{customdata[1]:.0%})" : "%{y:.0%}",
    };
    return band ? [band, line] : [line];
  });
  return {
    traces,
    layout: layout({
      hovermode: "x unified",
      xaxis: axis({ title: "normalised score τ", showgrid: false }),
      yaxis: axis({ title: "share of runs above τ", range: [-0.02, 1.03], tickformat: ".0%" }),
    }),
  };
}
