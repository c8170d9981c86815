// Where a question is written: text, pictures on their way, their size.
import { element, number } from "../src/page.js";
import { hasCamera, takePicture } from "./camera.js";
import { Picture } from "./pictures.js";

const by = (id) => document.getElementById(id);

export class Composer {
  constructor({ onSend, onStop, onChange, onTrouble }) {
    Object.assign(this, { onSend, onStop, onChange, onTrouble });
    this.pictures = [];
    this.busy = false;
    this.text = by("question");
    this.slider = by("size");
    this.listen();
  }

  get scale() {
    return Number(this.slider.value) / 100;
  }

  listen() {
    by("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.busy) this.submit();
    });
    this.text.addEventListener("input", () => {
      this.fit();
      this.onChange();
    });
    this.slider.addEventListener("input", () => {
      this.saySize([]);
      this.onChange();
    });
    by("attach").addEventListener("click", () => by("file").click());
    by("file").addEventListener("change", () => {
      this.add([...by("file").files]);
      by("file").value = "";
    });
    by("camera").hidden = !hasCamera();
    by("camera").addEventListener("click", () => this.photograph());
    document.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
      if (!files.length) return;
      event.preventDefault();
      this.add(files);
    });
    this.listenToDrops();
  }

  listenToDrops() {
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    document.addEventListener("dragover", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      by("drop").hidden = false;
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) by("drop").hidden = true;
    });
    document.addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      by("drop").hidden = true;
      this.add([...event.dataTransfer.files]);
    });
  }

  async photograph() {
    try {
      const picture = await takePicture();
      if (picture) this.show(picture);
    } catch (error) {
      this.onTrouble(`camera: ${error.message}`);
    }
    this.text.focus();
  }

  async add(files) {
    for (const file of files) {
      try {
        this.show(await Picture.read(file));
      } catch (error) {
        this.onTrouble(error.message);
      }
    }
    this.text.focus();
  }

  show(picture) {
    this.pictures.push(picture);
    this.draw();
    this.onChange();
  }

  draw() {
    by("pictures").hidden = by("sizes").hidden = this.pictures.length === 0;
    by("pictures").replaceChildren(...this.pictures.map((picture, i) => element("figure", {},
      element("img", { src: picture.thumbnail, alt: picture.name }),
      element("figcaption", { class: "tokens-of" }),
      element("button", { type: "button", "aria-label": `Remove ${picture.name}`, onclick: () => {
        this.pictures.splice(i, 1);
        this.draw();
        this.onChange();
        this.text.focus();
      } }, "×"))));
    this.saySize([]);
  }

  // Sides as they will be sent, and tokens where they are known.
  saySize(tokens) {
    if (!this.pictures.length) return;
    const words = this.pictures.map((picture) => picture.sides(this.scale).join(" × "));
    by("size-said").textContent = `${this.slider.value} %${words.length === 1 ? `, ${words[0]}` : ""}`;
    by("pictures").querySelectorAll(".tokens-of").forEach((place, i) => {
      place.textContent = tokens[i] === undefined ? words[i] : `${number(tokens[i])} tokens`;
    });
  }

  fit() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, innerHeight / 3)}px`;
  }

  set(text, pictures) {
    this.text.value = text;
    this.pictures = pictures;
    this.draw();
    this.fit();
    this.onChange();
  }

  setBusy(busy) {
    this.busy = busy;
    by("send").firstElementChild.textContent = busy ? "Stop" : "Ask";
    by("send").classList.toggle("stop", busy);
  }

  submit() {
    if (this.busy) return this.onStop();
    if (!this.text.value.trim() && !this.pictures.length) return this.text.focus();
    this.onSend(this.text.value, this.pictures, this.scale);
  }
}
