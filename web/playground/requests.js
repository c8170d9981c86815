// Requests to the server that this page came from, and what it says when it refuses.

const keyName = "saccade-key"; // kept while the tab is open, and by it alone

export const apiKey = {
  get: () => sessionStorage.getItem(keyName) ?? "",
  set: (key) => (key ? sessionStorage.setItem(keyName, key) : sessionStorage.removeItem(keyName)),
};

// What the server wrote, or what the browser did where nothing came.
export class RequestError extends Error {
  constructor(message, status = 0, type = "", param = "") {
    super(message);
    Object.assign(this, { status, type, param });
  }
}

// {"error": {...}} as in an answer's body or in an event of its stream.
function told(body, status) {
  const error = body?.error ?? body;
  if (typeof error === "string") return new RequestError(error, status);
  return new RequestError(error?.message ?? `the server answered ${status} and said nothing`, error?.code ?? status, error?.type, error?.param);
}

async function refusal(response) {
  const text = await response.text();
  try {
    return told(JSON.parse(text), response.status);
  } catch {
    return new RequestError(text.slice(0, 500) || `${response.status} ${response.statusText}`, response.status);
  }
}

// Relative, so that the page works behind a prefix (--root-path) too.
export async function send(path, { body, signal } = {}) {
  const headers = {};
  if (apiKey.get()) headers.Authorization = `Bearer ${apiKey.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("the server cannot be reached");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export const json = async (path, options) => (await send(path, options)).json();

// The events of a stream, parsed. Bytes may be cut anywhere, in the middle of a character too.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      if (!data) continue;
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw told(event, 500);
      yield event;
    }
  }
}
