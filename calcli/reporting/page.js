"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const models = JSON.parse(document.getElementById("calcli-page").textContent);
  const all = (where, what) => Array.from(where.querySelectorAll(what));
  const make = (kind, words, inside) => {
    const element = document.createElement(kind);
    element.textContent = words;
    if (inside) inside.append(element);
    return element;
  };
  const percent = (share) => {
    if (share === null) return "–";
    if (share === 0 || share === 1) return share * 100 + "%";
    if (share < 0.0005) return "under 0.1%";
    if (share >= 0.9995) return "over 99.9%";
    return (100 * share).toFixed(1) + "%";
  };
  const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

  const wilson = (rate, n, z) => {
    const centre = (rate + z * z / (2 * n)) / (1 + z * z / n);
    const half = z * Math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n);
    return [Math.max(0, centre - half), Math.min(1, centre + half)];
  };
  all(document, "a.term").forEach((link) => {
    link.title = document.getElementById(link.hash.slice(1)).nextElementSibling.textContent;
  });

  document.getElementById("colours").addEventListener("change", (event) => {
    if (event.target.value) root.dataset.colours = event.target.value;
    else delete root.dataset.colours;
  });
  document.getElementById("print").addEventListener("click", () => window.print());

  const opened = [];
  window.addEventListener("beforeprint", () => all(document, "details:not([open])").forEach((d) => { d.open = true; opened.push(d); }));
  window.addEventListener("afterprint", () => { while (opened.length) opened.pop().open = false; });

  const bodies = all(document, "[data-body]");
  const chooser = document.getElementById("model");
  const openModel = (at) => {
    all(document, ".model").forEach((m) => m.classList.toggle("off", m.dataset.model !== String(at)));
    chooser.value = String(at);
  };
  // A link may ask for a state: #model=NAME&focus=ts&at=90&threshold=95. It is read once and never written.
  const asked = new URLSearchParams(location.hash.slice(1));
  const pick = (select, word) => {
    const found = Array.from(select.options).find((each) => each.textContent === word);
    if (found) select.value = found.value;
  };
  if (chooser) {
    chooser.addEventListener("change", () => openModel(chooser.value));
    all(document, "[data-open]").forEach((link) => link.addEventListener("click", () => openModel(link.dataset.open)));
    const wanted = /^#model-(\d+)$/.exec(location.hash);
    pick(chooser, asked.get("model"));
    openModel(wanted && models[wanted[1]] ? wanted[1] : chooser.value);
  }

  // On a telephone a row is a card: every value stands behind the head of its column, and stays a cell for readers.
  all(document, "table").forEach((table) => {
    const heads = all(table, "thead th");
    const called = heads.map((head) => head.textContent.trim());
    heads.forEach((head) => head.setAttribute("role", "columnheader"));
    table.setAttribute("role", "table");
    all(table, "thead,tbody").forEach((part) => part.setAttribute("role", "rowgroup"));
    all(table, "tr").forEach((row) => row.setAttribute("role", "row"));
    all(table, "tbody tr").forEach((row) => Array.from(row.children).forEach((cell, at) => {
      cell.setAttribute("role", at ? "cell" : "rowheader");
      if (at) cell.dataset.label = called[at];
    }));
  });

  const first = (row, at) => {
    const words = row.children[at].textContent.trim();
    const number = parseFloat(words.replace(/\u2212/g, "-").replace(/[+\u202f]/g, ""));
    return Number.isNaN(number) || at === 0 ? words : number;
  };
  const before = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  all(document, "[data-list]").forEach((table) => {
    const heads = all(table, "thead th"), rows = all(table, "tbody tr");
    heads.forEach((head, at) => {
      if (!rows.length || !rows[0].children[at].textContent.trim()) return; // a drawing
      const button = make("button", "↕", head);
      button.type = "button";
      button.className = "sort";
      button.setAttribute("aria-label", "Sort by " + head.firstChild.textContent.trim());
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        all(table, ".sort").forEach((other) => { other.textContent = "↕"; });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        button.textContent = down ? "↓" : "↑";
        rows.sort((a, b) => (down ? -1 : 1) * before(first(a, at), first(b, at)));
        table.tBodies[0].append(...rows);
        const part = table.closest(".parts");
        if (part) part.dispatchEvent(new Event("sorted"));
      });
    });
  });
  const lister = (part) => {
    const search = part.querySelector(".search"), only = part.querySelector(".only");
    const more = part.querySelector(".more"), told = part.querySelector(".shown");
    let limit = more ? 20 : Infinity;
    const list = () => all(part, "[data-list]").forEach((table) => {
      const rows = all(table, "tbody tr"), wanted = search.value.trim().toLowerCase();
      let seen = 0, fitting = 0;
      rows.forEach((r) => {
        const fits = (!only || !only.checked || r.hasAttribute("data-beyond")) && r.firstElementChild.textContent.toLowerCase().includes(wanted);
        fitting += fits;
        const show = fits && seen < limit;
        seen += show;
        r.hidden = !show;
      });
      if (!table.closest(".off")) {
        told.textContent = seen + " of " + rows.length + " shown";
        if (more) more.hidden = fitting <= seen;
      }
    });
    if (more) more.addEventListener("click", () => { limit += 200; list(); });
    if (only) only.addEventListener("change", list);
    search.addEventListener("input", list);
    part.addEventListener("sorted", list);
    list();
    return list;
  };
  all(document, ".parts.overview").forEach(lister);

  const csv = (table) => all(table, "tr").filter((r) => !r.closest("[data-gone]"))
    .map((r) => all(r, "th,td").map((c) => {
      const data = c.querySelector("data");
      const words = Array.from(c.childNodes).filter((n) => n.nodeName !== "svg" && n.nodeName !== "BUTTON").map((n) => n.textContent).join(" ").replace(/\s+/g, " ").trim();
      return '"' + (data ? data.value : words).replace(/"/g, '""') + '"';
    }).join(",")).join("\n") + "\n";
  const drawn = (svg) => {
    const copy = svg.cloneNode(true);
    const from = [svg, ...all(svg, "*")], to = [copy, ...all(copy, "*")];
    from.forEach((element, at) => {
      const look = getComputedStyle(element);
      if (look.display === "none") to[at].setAttribute("display", "none");
      for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size"]) to[at].setAttribute(key, look.getPropertyValue(key));
    });
    return new XMLSerializer().serializeToString(copy);
  };
  const give = (name, kind, words) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([words], { type: kind }));
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  all(document, "button[data-download]").forEach((b) => b.addEventListener("click", () => {
    const target = document.querySelector('[data-file="' + b.dataset.download + '"]');
    if (target.nodeName === "TABLE") give(b.dataset.download + ".csv", "text/csv", csv(target));
    else give(b.dataset.download + ".svg", "image/svg+xml", drawn(target));
  }));

  bodies.forEach((body) => {
    const versions = models[body.dataset.body];
    const focus = body.querySelector(".focus");
    if (!focus) return; // left out for want of room
    const lists = all(body, ".parts").map(lister);
    const boxes = all(body, "[data-toggle]");
    const readings = all(body, ".reading").map((part) => ({
      part, quantity: part.dataset.quantity, slider: part.querySelector(".confidence"), figure: part.querySelector("svg.figure"),
    }));
    const sliders = { threshold: body.querySelector(".threshold") };
    const panel = (slider) => slider.closest(".panel");
    const shown = () => boxes.filter((b) => b.checked).map((b) => Number(b.dataset.toggle));

    const cursor = (svg, share) => {
      const line = svg.querySelector("[data-cursor]");
      line.classList.remove("off");
      line.setAttribute("transform", "translate(" + (Number(svg.dataset.left) + svg.dataset.side * share) + " 0)");
    };
    const say = (slider, lines, note) => {
      const list = document.createElement("dl");
      lines.forEach(([what, words]) => { make("dt", what, list); make("dd", words, list); });
      panel(slider).querySelector(".readout").replaceChildren(list, ...(note ? [make("p", note)] : []));
      panel(slider).querySelector(".at").textContent = slider.value + "%";
      slider.setAttribute("aria-valuetext", slider.value + "%, " + focus.selectedOptions[0].textContent + ": " + lines.map((line) => line.join(" ")).join("; "));
    };
    // The curve of the version in focus, as it is drawn; then the row of the table whose bin holds the confidence.
    const read = ({ part, quantity, slider, figure }) => {
      const at = Number(slider.value), version = versions[Number(focus.value)];
      const reading = version.readings[quantity], value = reading.curve[at], band = Math.round(at / 2);
      const lines = [];
      if (value === null) lines.push(["Curve at " + at + "%", "no sample is near"]);
      else lines.push(["Curve at " + at + "%", percent(value)], ["Under calibration", percent(reading.low[band]) + " to " + percent(reading.high[band])]);
      const bin = version.edges[quantity].findIndex((high) => at / 100 <= high + 1e-9);
      all(part, "tr.here").forEach((row) => row.classList.remove("here"));
      const row = part.querySelector('[data-version="' + focus.value + '"] tr[data-bin="' + bin + '"]');
      if (row) {
        row.classList.add("here");
        const heads = all(row.closest("table"), "thead th").map((head) => head.textContent.trim().replace(/\s+/g, " "));
        Array.from(row.children).slice(0, 4).forEach((cell, column) => {
          const words = Array.from(cell.childNodes).map((node) => node.textContent.trim());
          const head = column ? heads[column] : "Bin";
          lines.push([head, words[1] ? words[0] + " (" + words[1] + ")" : words[0]]);
        });
      }
      say(slider, lines);
      cursor(figure, at / 100);
    };
    const threshold = (sought) => {
      const at = Number(sliders.threshold.value), v = versions[Number(focus.value)], t = v.thresholds[at];
      const share = t.length > 3 ? t[3] : t[0] / v.n;
      const lines = [["Coverage", percent(t[0] ? share : 0) + " (" + count(t[0]) + " of " + count(v.n) + " samples)"]];
      if (t[0]) lines.push(["Accuracy (right), interval", percent(t[1]) + " (" + wilson(t[1], t.length > 4 ? t[4] : t[0], v.z).map(percent).join(" to ") + ")"], ["Mean confidence (sure)", percent(t[2])]);
      say(sliders.threshold, lines, typeof sought === "string" ? sought : "");
      cursor(body.querySelector('svg[data-file^="risk"]'), t[0] ? share : 0);
    };
    const find = () => {
      const v = versions[Number(focus.value)], wrong = Number(body.querySelector(".wanted").value) / 100;
      // From the top down, as far as every interval keeps the promise.
      let found = null;
      for (let at = 100; at >= 0; at -= 1) {
        const t = v.thresholds[at];
        if (!t[0]) continue;
        if (1 - wilson(t[1], t.length > 4 ? t[4] : t[0], v.z)[0] <= wrong) found = at;
        else if (found !== null) break;
      }
      if (found !== null) sliders.threshold.value = found;
      threshold(found === null
        ? "No threshold shows at most " + percent(wrong) + " wrong: too few samples are that sure, or they are wrong too often."
        : "The lowest threshold whose interval stays within " + percent(wrong) + " wrong. These samples chose it: check it on others (calcli threshold).");
    };
    const follow = () => {
      const k = focus.value;
      all(body, "[data-version]").forEach((e) => e.classList.toggle("off", e.dataset.version !== k));
      all(body, "[data-band]").forEach((e) => e.classList.toggle("off", e.dataset.band !== k));
      lists.forEach((list) => list());
      threshold();
      readings.forEach(read);
    };
    const toggle = () => {
      const on = shown();
      all(body, "[data-curve]").forEach((e) => e.classList.toggle("off", !on.includes(Number(e.dataset.curve))));
    };
    focus.addEventListener("change", follow);
    boxes.forEach((b) => b.addEventListener("change", toggle));
    sliders.threshold.addEventListener("input", threshold);
    body.querySelector(".find").addEventListener("click", find);
    readings.forEach((reading) => {
      const { slider, figure } = reading;
      slider.addEventListener("input", () => read(reading));
      const follows = (event) => {
        const box = figure.getBoundingClientRect(), view = figure.dataset;
        const share = ((event.clientX - box.left) / box.width * view.width - view.left) / view.side;
        slider.value = Math.round(100 * Math.min(1, Math.max(0, share)));
        read(reading);
      };
      figure.addEventListener("pointermove", follows);
      figure.addEventListener("pointerdown", follows);
    });
    const at = (name, slider) => {
      if (asked.has(name)) slider.value = asked.get(name);
    };
    pick(focus, asked.get("focus"));
    readings.forEach(({ slider }) => at("at", slider));
    at("threshold", sliders.threshold);
    follow();
    toggle();
  });
})();
