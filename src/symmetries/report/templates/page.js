// Each orbit viewer: the slider chooses a column of the sheet; every example shows that frame.
for (const viewer of document.querySelectorAll(".orbit")) {
  const sheet = viewer.querySelector(".sheet");
  const slider = viewer.querySelector("input");
  const output = viewer.querySelector("output");
  const mark = viewer.querySelector(".mark");
  const labels = slider.dataset.labels.split("|");
  const width = Number(viewer.dataset.width);
  const height = Number(viewer.dataset.height);
  const show = () => {
    const step = Number(slider.value);
    viewer.querySelectorAll("canvas").forEach((canvas, row) => {
      const context = canvas.getContext("2d");
      context.drawImage(sheet, step * width, row * height, width, height, 0, 0, width, height);
      if (canvas.dataset.weights) {
        const weight = Number(canvas.dataset.weights.split(" ")[step]);
        canvas.style.opacity = 0.15 + 0.85 * Math.sqrt(weight);
      }
    });
    output.textContent = labels[step];
    slider.setAttribute("aria-valuetext", labels[step]);
    mark.style.setProperty("--at", step / Number(slider.max));
  };
  slider.addEventListener("input", show);
  sheet.decode().then(show);
}
