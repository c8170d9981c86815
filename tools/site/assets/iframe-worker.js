// Search runs in a Worker, and browsers start none for a page that was opened as a file. There its script runs in a hidden
// frame instead. The name is what mkdocs-material's offline plugin looks for before it would load such a script from a CDN.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = []; // messages from before the frame had read its script
    #frame = document.createElement("iframe");
    #ready = false;

    constructor(script) {
      super();
      this.#frame.hidden = true;
      const reader = document.implementation.createHTMLDocument("");
      const source = reader.createElement("script");
      source.src = new URL(script, location.href);
      const answers = reader.createElement("script");
      answers.textContent = "window.postMessage = (data) => window.answer(data)";
      reader.head.append(answers, source);
      this.#frame.addEventListener("load", () => {
        this.#frame.contentWindow.answer = (data) => this.#tell(data);
        this.#ready = true;
        for (const data of this.#waiting) this.postMessage(data);
      });
      this.#frame.srcdoc = reader.documentElement.outerHTML;
      document.documentElement.append(this.#frame);
    }

    postMessage(data) {
      if (!this.#ready) this.#waiting.push(data);
      else this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    #tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
