// What was said so far, as requests bring it along.

const imagePart = (url) => ({ type: "image_url", image_url: { url } });

// Pictures first: most models were trained so.
const content = (text, urls) => (urls.length ? [...urls.map(imagePart), ...(text.trim() ? [{ type: "text", text }] : [])] : text);

export class Conversation {
  constructor() {
    this.turns = []; // {message, blank, element, text, pictures}: `blank` is the message with images of one colour
    this.known = 0; // tokens of the turns so far, as the last answer's usage says
  }

  // A turn of the user, its pictures scaled.
  static async turn(text, pictures, scale) {
    return { text, pictures, message: { role: "user", content: content(text, await Promise.all(pictures.map((picture) => picture.sent(scale)))) },
      blank: await Conversation.blank(text, pictures, scale) };
  }

  static async blank(text, pictures, scale) {
    return { role: "user", content: content(text, await Promise.all(pictures.map((picture) => picture.blank(scale)))) };
  }

  add(turn) {
    this.turns.push(turn);
    return turn;
  }

  messages(system, form = "message") {
    return [...(system ? [{ role: "system", content: system }] : []), ...this.turns.map((turn) => turn[form] ?? turn.message)];
  }

  // Takes the turns from `turn` on away.
  cut(turn) {
    for (const { element } of this.turns.splice(this.turns.indexOf(turn))) element?.remove();
    this.known = 0;
  }
}
