// The page at `/`: a conversation with the server that it came from. It asks nobody else, and keeps nothing but the API
// key, and that as long as the tab.
import { element, isDark } from "../src/page.js";
import { Answer } from "./answer.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { Count } from "./count.js";
import { AnswerForm } from "./form.js";
import { panel } from "./panel.js";
import { events, json, send } from "./requests.js";
import { drawn, pictureOf, samples } from "./samples.js";
import { ServerView } from "./server.js";
import { Settings } from "./settings.js";

const by = (id) => document.getElementById(id);
const log = by("log");
let conversation = new Conversation();
let running = null; // the AbortController of the answer that comes

const say = (words) => { by("said").textContent = words; };
const model = () => (by("model").value ? { model: by("model").value } : {});

const controls = panel();
const settings = new Settings(by("settings"), { onKey: connect, onChange: () => count.soon() });
const form = new AnswerForm(by("form"), () => count.soon());
const server = new ServerView(by("server"), { onState: (up) => setState(up ? "up" : "down") });
const composer = new Composer({ onSend: ask, onStop: () => running?.abort(), onChange: () => count.soon(), onTrouble: trouble });
const count = new Count({ draft, rates: () => server.rates(), told: (words, images) => {
  by("cost").textContent = words;
  composer.saySize(images);
} });

async function draft() {
  const { text, pictures, scale } = { text: composer.text.value, pictures: composer.pictures, scale: composer.scale };
  if (!text.trim() && !pictures.length) return null;
  const messages = [...conversation.messages(settings.system.value, "blank"), await Conversation.blank(text, pictures, scale)];
  return { body: { ...model(), messages, ...form.counted() }, pictures: pictures.length, known: conversation.known };
}

// --- asking ---

async function ask(text, pictures, scale) {
  let turn;
  try {
    form.request();
    turn = await Conversation.turn(text, pictures, scale);
  } catch (error) {
    return trouble(error.message);
  }
  showQuestion(conversation.add(turn), scale);
  composer.set("", []);
  await answer();
}

function showQuestion(turn, scale) {
  log.querySelector(".hero")?.remove();
  const sides = (picture) => picture.sides(scale).join(" × ");
  turn.element = element("article", { class: "question", "aria-label": "Question" },
    turn.pictures.length ? element("div", { class: "shown" }, turn.pictures.map((picture) => element("img", { src: picture.thumbnail, alt: `${picture.name}, ${sides(picture)}`, title: `${picture.name}, ${sides(picture)}` }))) : null,
    turn.text.trim() ? element("p", {}, turn.text) : null,
    element("button", { type: "button", class: "quiet", onclick: () => {
      running?.abort();
      conversation.cut(turn);
      composer.set(turn.text, turn.pictures);
      composer.text.focus();
      if (!conversation.turns.length) hero();
    } }, "Edit"));
  log.append(turn.element);
}

async function answer() {
  const view = new Answer(by("tip"), { onCall: returnResult, onWalk: say });
  log.append(view.element);
  follow();
  const control = (running = new AbortController());
  composer.setBusy(true);
  say("The answer is coming");
  let scale;
  try {
    const response = await send("v1/chat/completions", { signal: control.signal, body: { ...model(), messages: conversation.messages(settings.system.value),
      ...settings.request(), ...form.request(), stream: true, stream_options: { include_usage: true }, metrics: true } });
    scale = response.headers.get("x-saccade-image-scale");
    for await (const event of events(response)) {
      view.take(event);
      followSoon();
    }
  } catch (error) {
    if (error.name === "AbortError") view.finish = "stopped";
    else view.fail(error);
    if (error.status === 401) needsKey();
  }
  view.end({ scale });
  follow();
  if (running === control) {
    running = null;
    composer.setBusy(false);
  }
  // An answer that failed before its first token is no turn: what comes next would be asked without one.
  if (view.text || view.calls.length) conversation.add({ message: view.message(), element: view.element });
  conversation.known = view.usage ? view.usage.prompt_tokens + view.usage.completion_tokens : 0;
  say(view.text || (view.calls.length ? "The model calls a tool" : "No answer"));
  server.read();
}

// The result of a tool's call, written by the user; the model goes on when all are there.
async function returnResult(call, result, all) {
  conversation.add({ message: { role: "tool", tool_call_id: call.id, content: result } });
  if (all) await answer();
}

const isNearEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
const follow = () => { log.scrollTop = log.scrollHeight; };

// Once a frame, not once a token, and not where somebody reads further up.
let atEnd = true;
let following = false;
log.addEventListener("scroll", () => { atEnd = isNearEnd(); });
function followSoon() {
  if (following || !atEnd) return;
  following = true;
  requestAnimationFrame(() => {
    following = false;
    follow();
  });
}

function trouble(words) {
  log.append(element("article", { class: "answer" }, element("div", { class: "error", role: "alert" }, element("p", {}, words))));
  follow();
}

// --- the beginning ---

function hero() {
  log.append(element("div", { class: "hero" }, element("h2", {}, "What should it look at?"),
    element("p", {}, "Paste, drop or choose an image, or begin with one of these."),
    element("div", { class: "samples" }, samples.map((sample) => {
      const canvas = drawn(sample);
      canvas.setAttribute("aria-hidden", "true");
      return element("button", { type: "button", onclick: async () => {
        composer.set(sample.question, [await pictureOf(sample)]);
        composer.text.focus();
      } }, canvas, element("span", {}, sample.question));
    }))));
}

function fresh() {
  running?.abort();
  conversation = new Conversation();
  log.replaceChildren();
  hero();
  composer.set("", []);
  composer.text.focus();
}

// --- the server ---

function setState(state) {
  if (by("state").dataset.state === "key" && state === "up") return;
  by("state").dataset.state = state;
  by("state").textContent = { up: "ready", down: "not reached", key: "needs a key", wait: "connecting" }[state];
}

function needsKey() {
  setState("key");
  controls.open("settings");
  settings.focusKey();
}

async function connect() {
  setState("wait");
  try {
    const { data } = await json("v1/models");
    by("model").replaceChildren(...data.map(({ id }) => element("option", { value: id }, id)));
    setState("up");
    count.soon();
  } catch (error) {
    if (error.status === 401) return needsKey();
    setState("down");
    trouble(error.message);
  }
}

function themeButton() {
  const words = () => { by("theme").textContent = isDark() ? "Light" : "Dark"; };
  by("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    words();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", words);
  words();
}

by("fresh").addEventListener("click", fresh);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (controls.closeOverlay()) return;
  running?.abort();
});
themeButton();
hero();
server.start();
connect();
composer.text.focus({ preventScroll: true });
document.documentElement.dataset.drawn = "";
