/* Legend, tables, downloads and print; it starts the rest. */
wireCurves();
for (const box of document.querySelectorAll(".plot[data-overall]"))
  new Chart(box, () => overallChart(box.dataset.overall));
const heats = [...document.querySelectorAll(".heat")].map(
  (root) => new HeatSection(root, report.tasks[Number(root.dataset.task)]),
);

const buttons = [...document.querySelectorAll(".legend button[data-method]")];
const show = (button, visible) => {
  const method = Number(button.dataset.method);
  button.setAttribute("aria-pressed", String(visible));
  if (visible) chosen.hidden.delete(method);
  else chosen.hidden.add(method);
  for (const row of document.querySelectorAll(`tr[data-method="${method}"]`)) row.classList.toggle("dimmed", !visible);
};
for (const button of buttons) {
  button.addEventListener("click", () => {
    show(button, button.getAttribute("aria-pressed") !== "true");
    refreshAll();
  });
}
for (const button of document.querySelectorAll(".legend button[data-all]")) {
  button.addEventListener("click", () => {
    for (const each of buttons) show(each, button.dataset.all === "show");
    refreshAll();
  });
}

/* Tables are sorted by a click on a column's head; what has no number comes last. */
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const column = [...head.parentNode.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const key = (row) => row.children[column].dataset.sort;
    const compare = (a, b) => {
      const [p, q] = [Number(key(a)), Number(key(b))];
      if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
      const order = Number.isNaN(p) || Number.isNaN(q) ? key(a).localeCompare(key(b)) : p - q;
      return down ? -order : order;
    };
    body.append(...[...body.rows].sort(compare));
  });
}

/* Downloads come from the page itself. */
const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
const csv = (rows) =>
  rows.map((row) => row.map((value) => (typeof value === "number" ? value : quoted(value))).join(",")).join("\n") +
  "\n";
const FILES = {
  "report.json": () => ["application/json", document.getElementById("data").textContent],
  "curves.csv": () => {
    const rows = ["task,method,curve,axis,x,mean,mean_minus_std,mean_plus_std,iqm,iqm_low,iqm_high,guide_share".split(",")];
    for (const task of report.tasks)
      for (const method of task.methods)
        for (const [kind, axes] of Object.entries(task.curves[method] || {}))
          for (const [name, curve] of Object.entries(axes))
            curve.x.forEach((x, k) =>
              rows.push([
                task.name,
                report.methods[method].name,
                kind,
                name,
                x,
                ...curve.mean.map((v) => v[k]),
                ...curve.iqm.map((v) => v[k]),
                curve.share ? curve.share[k] : "",
              ]),
            );
    return ["text/csv", csv(rows)];
  },
  "headline.csv": () => {
    const flat = (value, name) =>
      value !== null && typeof value === "object"
        ? Object.entries(value).flatMap(([key, part]) => flat(part, `${name}.${key}`))
        : [[name, value]];
    const rows = report.headline.map((row) =>
      Object.fromEntries(Object.entries(row).flatMap(([key, part]) => flat(part, key))),
    );
    const heads = [...new Set(rows.flatMap(Object.keys))];
    return ["text/csv", csv([heads, ...rows.map((row) => heads.map((head) => row[head]))])];
  },
};
for (const button of document.querySelectorAll("button[data-file]")) {
  button.addEventListener("click", () => {
    const [type, text] = FILES[button.dataset.file]();
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: button.dataset.file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
}

/* On paper everything is drawn, in the width of the sheet, on white and with a legend; what is folded away is opened. */
let before = null;
const folded = () => document.querySelectorAll("details:not([data-table], [open])");
let opened = [];
addEventListener("beforeprint", () => {
  before = document.documentElement.dataset.theme ?? "";
  document.documentElement.dataset.theme = "light";
  document.documentElement.classList.add("printing");
  opened = [...folded()];
  for (const details of opened) details.open = true;
  chosen.paper = true;
  for (const chart of charts) {
    chart.stale = true;
    chart.draw();
  }
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  if (before) document.documentElement.dataset.theme = before;
  else delete document.documentElement.dataset.theme;
  for (const details of opened) details.open = false;
  chosen.paper = false;
  refreshAll();
});

/* A table that goes on beyond the edge fades out there. */
const fade = (frame) => {
  frame.classList.toggle("more", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 1);
  frame.classList.toggle("less", frame.scrollLeft > 1);
};
const resized = new ResizeObserver((entries) => entries.forEach((entry) => fade(entry.target)));
for (const frame of document.querySelectorAll(".scroll")) {
  frame.addEventListener("scroll", () => fade(frame), { passive: true });
  resized.observe(frame);
}

/* How many charts were drawn at once; the others are drawn as soon as there is nothing else to do. */
const first = (charts.length ? seen : Promise.resolve()).then(() => charts.filter((chart) => !chart.stale).length);
first.then(() => {
  drawing = false;
  drawRest();
});
window.polaugReport = { report, chosen, charts, heats, first };
