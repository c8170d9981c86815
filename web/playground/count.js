// What the question would cost, while it is written: tokens as the server counts them, and the time that this server's
// own measurements make of them.
import { number, time } from "../src/page.js";
import { json } from "./requests.js";

const pause = 250; // ms without a change before it is asked

export class Count {
  // `draft()`: messages and what else the prompt is made of, its images blank, and how many are new; null: nothing to
  // count. `told(words, imageTokens)` hears what came of it.
  constructor({ draft, rates, told }) {
    Object.assign(this, { draft, rates, told });
  }

  soon() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.timer = setTimeout(() => this.now(), pause);
  }

  async now() {
    const asked = (this.asked = new AbortController());
    try {
      const draft = await this.draft();
      if (asked.signal.aborted) return;
      if (!draft) return this.told("", []);
      const counted = await json("tokenize", { body: draft.body, signal: asked.signal });
      const images = (counted.image_tokens ?? []).slice(-draft.pictures || Infinity);
      this.told(this.words(counted, images, draft.known), images);
    } catch (error) {
      if (error.name !== "AbortError") this.told(error.message, []);
    }
  }

  // `known`: tokens of earlier turns, which the prefix cache most likely has.
  words({ count, max_model_len: most }, images, known) {
    const ofImages = images.reduce((sum, tokens) => sum + tokens, 0);
    const fresh = Math.max(0, count - known);
    const { prefill, encode } = this.rates();
    const parts = [`${number(count)} of ${number(most)} tokens`];
    if (ofImages) parts.push(`${number(ofImages)} of images`);
    if (prefill && (!ofImages || encode)) parts.push(`about ${time((fresh / prefill + (ofImages ? ofImages / encode : 0)) * 1000)} to read`);
    return parts.join(" · ");
  }
}
