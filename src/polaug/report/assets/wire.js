/* What the report and the studio share: curves in their places, switches, and light or dark. */
function wireCurves() {
  for (const box of document.querySelectorAll(".plot[data-kind]")) {
    const task = () => report.tasks[Number(box.dataset.task)];
    const { kind } = box.dataset;
    const build = () => {
      box.setAttribute("aria-label", curveWords(task(), kind));
      return curveChart(task(), kind);
    };
    new Chart(box, build);
    fillOnOpen(box.closest("figure").querySelector("details"), () => curveRows(task(), kind));
  }
}

const refreshAll = () => {
  for (const chart of charts) chart.refresh();
  for (const details of document.querySelectorAll("details[data-table][open]"))
    details.dispatchEvent(new Event("toggle"));
};
for (const input of document.querySelectorAll(".controls input")) {
  const take = () => {
    chosen[input.name] = input.type === "checkbox" ? input.checked : input.value;
  };
  input.addEventListener("change", () => {
    take();
    refreshAll();
  });
  if (input.checked) take(); /* a reloaded page keeps its switches */
}

/* Light or dark as the system says, until the reader says otherwise. */
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = document.querySelector(".theme");
const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const repaint = () => {
  theme.textContent = isDark() ? "Light page" : "Dark page";
  refreshAll();
};
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  repaint();
});
dark.addEventListener("change", repaint);
repaint();
