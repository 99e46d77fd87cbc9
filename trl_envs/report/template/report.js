// The value under the pointer, in every chart.
for (const chart of document.querySelectorAll("svg.chart")) {
  const lines = JSON.parse(chart.dataset.lines);
  const mark = chart.querySelector(".mark");
  const said = chart.closest("figure").querySelector(".said");
  const resting = said.innerHTML;
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    const nearest = lines.map((line) =>
      line.places.reduce((best, place) => (Math.abs(place[2] - x) < Math.abs(best[2] - x) ? place : best)),
    );
    if (!nearest.length) return;
    mark.setAttribute("x1", nearest[0][2]);
    mark.setAttribute("x2", nearest[0][2]);
    mark.style.display = "inline";
    said.textContent = "";
    nearest.forEach((place, index) => {
      const part = document.createElement("span");
      part.className = "run" + lines[index].run;
      part.textContent = `step ${place[0]}: ${Number(place[1].toPrecision(4))}`;
      said.append(part);
    });
  });
  chart.addEventListener("pointerleave", () => {
    mark.style.display = "none";
    said.innerHTML = resting;
  });
}
