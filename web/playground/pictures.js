// Images on their way into a question: read once, shown small, scaled when they are sent.

const sentAsTheyCome = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"];

const dataUrl = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

export class Picture {
  // A file, or what was pasted. Throws where the browser cannot read it.
  static async read(blob, name = blob.name || "pasted") {
    let bitmap;
    try {
      bitmap = await createImageBitmap(blob);
    } catch {
      throw new Error(`${name} is no image that this browser can read`);
    }
    return new Picture(blob, bitmap, name);
  }

  constructor(blob, bitmap, name) {
    Object.assign(this, { blob, bitmap, name, width: bitmap.width, height: bitmap.height });
    this.thumbnail = this.drawn(Math.min(1, 320 / Math.max(bitmap.width, bitmap.height))).toDataURL("image/webp", 0.8);
  }

  sides(scale) {
    return [Math.max(1, Math.round(this.width * scale)), Math.max(1, Math.round(this.height * scale))];
  }

  drawn(scale) {
    const [width, height] = this.sides(scale);
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const pen = canvas.getContext("2d");
    pen.imageSmoothingQuality = "high";
    pen.drawImage(this.bitmap, 0, 0, width, height);
    return canvas;
  }

  // What the model sees. At full size the file's own bytes; scaled or of a kind that the server does not read, drawn
  // again: photographs as JPEG, all else without loss.
  async sent(scale) {
    if (scale === 1 && sentAsTheyCome.includes(this.blob.type)) return dataUrl(this.blob);
    const type = /jpeg|heic|avif/.test(this.blob.type) ? "image/jpeg" : "image/png";
    return dataUrl(await new Promise((resolve) => this.drawn(scale).toBlob(resolve, type, 0.92)));
  }

  // Tokens depend on the sides alone: to count them a blank picture of these sides is enough, some hundred bytes
  // instead of megabytes at each move of the slider.
  blank(scale) {
    return blankPng(...this.sides(scale));
  }
}

// --- a PNG of one colour: one bit a pixel, all zero ---

const crcTable = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; ++bit) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function chunk(name, bytes) {
  const made = new Uint8Array(12 + bytes.length);
  const view = new DataView(made.buffer);
  view.setUint32(0, bytes.length);
  made.set([...name].map((letter) => letter.charCodeAt(0)), 4);
  made.set(bytes, 8);
  let crc = 0xffffffff;
  for (const byte of made.subarray(4, 8 + bytes.length)) crc = crcTable[(crc ^ byte) & 255] ^ (crc >>> 8);
  view.setUint32(8 + bytes.length, ~crc >>> 0);
  return made;
}

const blanks = new Map();

async function blankPng(width, height) {
  const key = `${width}x${height}`;
  if (!blanks.has(key)) {
    const head = new DataView(new ArrayBuffer(13));
    head.setUint32(0, width);
    head.setUint32(4, height);
    head.setUint8(8, 1);
    const rows = new Blob([new Uint8Array(height * (1 + Math.ceil(width / 8)))]);
    const packed = await new Response(rows.stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer();
    const parts = [new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", new Uint8Array(head.buffer)), chunk("IDAT", new Uint8Array(packed)), chunk("IEND", new Uint8Array())];
    blanks.set(key, await dataUrl(new Blob(parts, { type: "image/png" })));
    if (blanks.size > 64) blanks.delete(blanks.keys().next().value);
  }
  return blanks.get(key);
}
