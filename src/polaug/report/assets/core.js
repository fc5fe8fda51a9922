/* What all parts share: the data, what the reader has chosen, names made harmless, and charts drawn when looked at. */
"use strict";
let report = JSON.parse(document.getElementById("data").textContent);
const chosen = { axis: "steps", statistic: "iqm", smoothing: "1", seeds: false, hidden: new Set(), paper: false };
const charts = [];
const TITLES = { steps: "environment steps", episodes: "episode", seconds: "training time (seconds)" };

/* Plotly reads some HTML and %{…} in its texts: a name must not be able to say either. */
const plain = (text) => String(text).replace(/[&<>%{}"']/g, (c) => `&#${c.charCodeAt(0)};`);
const number = (value, digits = 4) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const options = size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return value.toLocaleString("en-GB", options).replace("-", "−");
};
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faint = (colour, share) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${share})`;
};

/* The mean over so many points around each; unknown ones do not count. */
const smoothed = (values, window = Number(chosen.smoothing)) => {
  if (window < 2) return values;
  const half = Math.floor(window / 2);
  return values.map((value, k) => {
    if (value === null) return null;
    const reach = Math.min(half, k, values.length - 1 - k); /* symmetric, so that ends stay where they are */
    const near = values.slice(k - reach, k + reach + 1).filter((each) => each !== null);
    return near.reduce((sum, each) => sum + each, 0) / near.length;
  });
};

/* What lies between two lines; null where there is nothing, since one seed has no interval. */
const bandTrace = (x, low, high, colour) =>
  low[0] === null
    ? null
    : {
        x: [...x, ...x.slice().reverse()],
        y: [...high, ...low.slice().reverse()],
        fill: "toself",
        fillcolor: faint(colour, 0.14),
        line: { width: 0 },
        mode: "lines",
        hoverinfo: "skip",
        showlegend: false,
      };

/* A place on the page and how to fill it. It is drawn when it comes into view, or when there is nothing else to do, and
   redrawn when a choice changes. */
class Chart {
  constructor(box, build) {
    Object.assign(this, { box, build, stale: true, near: false });
    charts.push(this);
    box.chart = this;
    watcher.observe(box);
  }

  draw() {
    if (!this.stale) return;
    this.stale = false;
    const made = this.build();
    if (!made) return;
    this.box.classList.remove("waiting");
    Plotly.react(this.box, made.traces, made.layout, {
      displaylogo: false,
      responsive: true,
      displayModeBar: made.tools ? "hover" : false /* over a small picture it would hide some of it */,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "sendChartToCloud"] /* nothing leaves the page */,
    });
  }

  refresh() {
    this.stale = true;
    if (this.near) this.draw();
    else drawRest();
  }
}

/* Charts out of sight, one at a time and only while the page is idle. */
const idle = window.requestIdleCallback || ((work) => setTimeout(work, 200));
let drawing = true; /* until what is in sight is drawn */
function drawRest() {
  if (drawing) return;
  drawing = true;
  idle(() => {
    drawing = false;
    const chart = charts.find((each) => each.stale && each.box.offsetParent);
    if (!chart) return;
    chart.draw();
    drawRest();
  });
}

/* Resolved once it is known what is in sight, and that is drawn. */
let seeFirst;
const seen = new Promise((done) => (seeFirst = done));

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      entry.target.chart.near = entry.isIntersecting;
      if (entry.isIntersecting) entry.target.chart.draw();
    }
    seeFirst();
  },
  { rootMargin: "250px 0px" },
);

const axis = (more = {}) => ({
  gridcolor: variable("--grid"),
  linecolor: variable("--line"),
  tickcolor: variable("--line"),
  zeroline: false,
  automargin: true,
  tickfont: { size: 12, color: variable("--soft") },
  ...more,
  title: { text: more.title || "", standoff: 8, font: { size: 12.5, color: variable("--soft") } },
});

/* Paper has no switches, whose buttons are the legend on a screen. */
const legend = { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11.5 } };

const touch = matchMedia("(pointer: coarse)");
const layout = (more = {}) => ({
  autosize: true,
  dragmode: false /* a finger that scrolls must not zoom */,
  margin: { l: 52, r: 14, t: 10, b: 44 },
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: variable("--sans"), size: 13, color: variable("--ink") },
  showlegend: chosen.paper,
  legend,
  hoverlabel: {
    bgcolor: variable("--card"),
    bordercolor: variable("--line"),
    font: { family: variable("--sans"), size: 12.5, color: variable("--ink") },
    namelength: -1,
  },
  modebar: { bgcolor: "rgba(0,0,0,0)", color: variable("--faint"), activecolor: variable("--mark") },
  ...more,
});

/* A table below a chart, for those who do not see it; filled when opened. */
const fillOnOpen = (details, rows) => {
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const [head, ...body] = rows();
    const cells = (row, name) =>
      row.map((text, k) =>
        element(k ? name : "th", k && name === "td" ? {} : { scope: name === "th" ? "col" : "row" }, String(text)),
      );
    const table = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...cells(head, "th"))),
      element("tbody", {}, ...body.map((row) => element("tr", {}, ...cells(row, "td")))),
    );
    const frame = details.querySelector(".scroll");
    frame.replaceChildren(table);
  });
};
