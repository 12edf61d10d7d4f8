/* The little that the page does by itself: the address names the run, a problem leads to its field, logs follow. */
(() => {
  "use strict";
  const language = location.pathname.includes("/zh-CN") ? "zh-CN" : "en";
  document.documentElement.lang = language;

  const fieldOf = (key) => document.getElementById("f-" + key.replaceAll(".", "-"));

  function address() {
    const mark = document.querySelector("[data-zb-run]");
    if (!mark || !mark.dataset.zbRun) return;
    const url = new URL(location.href);
    if (url.searchParams.get("run") === mark.dataset.zbRun) return;
    url.searchParams.set("run", mark.dataset.zbRun);
    history.replaceState(null, "", url);
  }

  /* fields in one line keep their boxes in one line, also where only some have something told beneath them */
  function align() {
    document.querySelectorAll(".zb-grid").forEach((grid) => {
      const fields = [...grid.querySelectorAll(".zb-field")];
      if (!fields.some((field) => field.classList.contains("bad") || field.style.paddingBottom)) return;
      const beneath = fields.map((field) => {
        const notes = [...field.querySelectorAll(":scope > .zb-field-error")];
        return notes.reduce((sum, note) => sum + note.offsetHeight + parseFloat(getComputedStyle(note).marginTop), 0);
      });
      const tops = fields.map((field) => Math.round(field.getBoundingClientRect().top));
      fields.forEach((field, i) => {
        const most = Math.max(...beneath.filter((_, k) => tops[k] === tops[i]));
        field.style.paddingBottom = most > beneath[i] ? `${most - beneath[i]}px` : "";
      });
    });
  }
  const widths = new ResizeObserver(align); /* a fold that opens counts as well */

  function problems() {
    const panel = document.getElementById("zb-plan");
    if (!panel) return;
    const told = [...panel.querySelectorAll(".zb-problem.error[data-field]")];
    const sign = told.map((item) => item.dataset.field + item.dataset.words).join("\n");
    if (panel.dataset.sign === sign) return;
    panel.dataset.sign = sign;
    document.querySelectorAll(".zb-field-error").forEach((note) => note.remove());
    document.querySelectorAll(".zb-field.bad").forEach((field) => field.classList.remove("bad"));
    told.forEach((item) => {
      const field = fieldOf(item.dataset.field);
      if (!field) return;
      field.classList.add("bad");
      const note = document.createElement("p");
      note.className = "zb-field-error";
      note.textContent = item.dataset.words;
      field.append(note);
      widths.observe(note);
    });
    align();
  }

  /* clocks run on between two words of the server: up for what it took, down for what is left */
  const clocks = new WeakMap();
  function told(node, seconds) {
    const whole = Math.max(0, Math.round(seconds));
    const two = (n) => String(n).padStart(2, "0");
    const [form, h, m, s] =
      whole < 60
        ? [node.dataset.s, 0, 0, String(whole)]
        : whole < 3600
          ? [node.dataset.m, 0, Math.floor(whole / 60), two(whole % 60)]
          : [node.dataset.h, Math.floor(whole / 3600), two(Math.floor((whole % 3600) / 60)), ""];
    return form.replace("{h}", h).replace("{m}", m).replace("{s}", s);
  }
  setInterval(() => {
    document.querySelectorAll("[data-clock]").forEach((node) => {
      if (!clocks.has(node)) clocks.set(node, performance.now());
      const gone = ((performance.now() - clocks.get(node)) / 1000) * Number(node.dataset.pace);
      const words = told(node, Number(node.dataset.clock) + gone);
      if (node.textContent !== words) node.textContent = words;
    });
  }, 1000);

  const atEnd = new WeakMap();
  function follow() {
    document.querySelectorAll("pre[data-follow]").forEach((log) => {
      if (!atEnd.has(log)) {
        atEnd.set(log, true);
        log.addEventListener("scroll", () => {
          window.zbLogFree = log.scrollTop + log.clientHeight < log.scrollHeight - 24;
          window.zbLogTop = log.scrollTop;
        });
        if (window.zbLogFree) log.scrollTop = window.zbLogTop;
        else log.scrollTop = log.scrollHeight;
      } else if (!window.zbLogFree) log.scrollTop = log.scrollHeight;
    });
  }

  function go(key) {
    const field = fieldOf(key);
    if (!field) return;
    for (let box = field.parentElement; box; box = box.parentElement) {
      const label = box.querySelector(":scope > button.label-wrap");
      if (label && !label.classList.contains("open")) label.click();
    }
    setTimeout(() => {
      field.scrollIntoView({ block: "center" });
      const input = field.querySelector("input, textarea, select");
      if (input) input.focus({ preventScroll: true });
    }, 120);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-goto]");
    if (link) {
      event.preventDefault();
      const setup = document.querySelector("#zb-plan");
      if (setup && !setup.offsetParent) document.querySelector('#zb-faces button[role="tab"]')?.click();
      setTimeout(() => go(link.dataset.goto), 0);
    }
    const press = event.target.closest("[data-press]");
    if (press) {
      const aim = document.getElementById(press.dataset.press);
      (aim?.matches("button") ? aim : aim?.querySelector('button[role="tab"]'))?.click();
      if (aim?.matches('.zb-inner [role="tab"]')) setTimeout(() => aim.scrollIntoView({ block: "start" }), 60);
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const from = document.getElementById(copy.dataset.copy);
      const text = from.value ?? from.textContent;
      const said = copy.textContent;
      const done = () => {
        copy.textContent = copy.dataset.done;
        setTimeout(() => (copy.textContent = said), 1500);
      };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(done);
      else {
        const area = document.createElement("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
        done();
      }
    }
    if (event.target.closest("[data-close]")) event.target.closest(".zb-notice").remove();
  });

  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      address();
      problems();
      follow();
    });
  }).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-zb-run"] });
})();
