
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const STORED = `hab-sheet-${data.sheet}-${data.rater}`;
let keeps = true;
let saved = true;
let at = 0;

/* Ratings by item: {issues: [letters], none: bool, failed: bool, comment: text}. */
const ratings = Object.create(null);

function restore() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORED) || "{}");
    for (const { item } of data.items) if (Object.hasOwn(kept, item)) ratings[item] = kept[item];
    localStorage.setItem(STORED, JSON.stringify(ratings));
  } catch (refused) {
    keeps = false;
    by("warning").textContent =
      "This browser keeps nothing of a file. Save your ratings before you close or reload this page.";
    by("warning").hidden = false;
  }
}

function keep() {
  saved = false;
  if (!keeps) return;
  try {
    localStorage.setItem(STORED, JSON.stringify(ratings));
  } catch (full) {
    keeps = false;
    by("warning").textContent = "This browser has no room left. Save your ratings before you close this page.";
    by("warning").hidden = false;
  }
}

const isRated = (rating) =>
  Boolean(rating) && (rating.failed ? rating.comment.trim() !== "" : rating.none || rating.issues.length > 0);

/* One line for each answer that was rated, as `raters:` reads it. */
function lines() {
  return data.items
    .filter(({ item }) => isRated(ratings[item]))
    .map(({ item, dimension }) => {
      const { issues, failed, comment } = ratings[item];
      const row = { item, dimension, rater: data.rater, kind: "person" };
      if (failed) row.failed = comment;
      else row.issues = issues;
      if (comment.trim() !== "") row.comment = comment;
      return JSON.stringify(row) + "\n";
    })
    .join("");
}

function box(letter, text) {
  const label = document.createElement("label");
  label.className = "box";
  const input = document.createElement("input");
  input.type = "checkbox";
  input.value = letter;
  const words = document.createElement("span");
  words.textContent = text;
  words.dir = "auto";
  label.append(input, words);
  return label;
}

const boxes = () => [...by("issues").querySelectorAll("input")];

function show() {
  const question = data.items[at];
  const dimension = data.dimensions[question.dimension];
  const rating = ratings[question.item] || { issues: [], none: false, failed: false, comment: "" };
  by("dimension").textContent = dimension.title;
  by("definition").textContent = dimension.definition;
  by("prompt").textContent = question.prompt;
  by("answer").textContent = question.answer;
  by("context-part").hidden = question.context === "";
  by("context-label").textContent = dimension.context;
  by("context").textContent = question.context;
  by("issues").replaceChildren(...dimension.issues.map(({ letter, text }) => box(letter, text)));
  for (const each of boxes()) each.checked = rating.issues.includes(each.value);
  by("none").checked = rating.none;
  by("failed").checked = rating.failed;
  by("comment").value = rating.comment;
  by("back").disabled = at === 0;
  by("next").disabled = at === data.items.length - 1;
  by("place").textContent = `${at + 1} / ${data.items.length}`;
  count();
}

function count() {
  const rated = data.items.filter(({ item }) => isRated(ratings[item])).length;
  by("count").textContent = `${rated} of ${data.items.length} rated`;
  by("progress").max = data.items.length;
  by("progress").value = rated;
  by("open").disabled = rated === data.items.length;
  by("needed").textContent = by("failed").checked ? "(please say why)" : "(optional)";
  by("copy").value = lines();
}

/* "None" and "cannot" exclude everything else. */
function change(event) {
  const ticked = event.target;
  if (ticked.type === "checkbox" && ticked.checked) {
    const alone = [by("none"), by("failed")];
    for (const other of [...boxes(), ...alone]) {
      if (other !== ticked && (alone.includes(ticked) || alone.includes(other))) other.checked = false;
    }
  }
  ratings[data.items[at].item] = {
    issues: boxes().filter((each) => each.checked).map((each) => each.value),
    none: by("none").checked,
    failed: by("failed").checked,
    comment: by("comment").value,
  };
  keep();
  count();
}

function go(to) {
  at = to;
  show();
  window.scrollTo(0, 0);
}

function nextOpen() {
  const order = data.items.map((_, place) => (at + 1 + place) % data.items.length);
  const found = order.find((place) => !isRated(ratings[data.items[place].item]));
  if (found !== undefined) go(found);
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines()], { type: "application/x-ndjson" }));
  link.download = `${data.rater}-${data.sheet}.jsonl`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  saved = true;
}

by("title").textContent = `Rating sheet for ${data.rater}`;
document.querySelector(".rating").addEventListener("input", change);
by("back").addEventListener("click", () => go(at - 1));
by("next").addEventListener("click", () => go(at + 1));
by("open").addEventListener("click", nextOpen);
by("export").addEventListener("click", download);
window.addEventListener("beforeunload", (event) => {
  if (!keeps && !saved) event.preventDefault();
});
restore();
show();
