// Reads ACP traces: a JSON object a line (blank lines are passed over), in an envelope {"ts", "direction", "message"} or bare.

import { readFileSync } from "node:fs";
import { fault, methods } from "./schema.mjs";
import { toAgent, toClient } from "./wire.mjs";

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

export const opposite = (direction) => (direction === toAgent ? toClient : toAgent);

// The messages of a file: [{line, direction, message}]. Throws at the first line that is not one. The direction is
// undefined for bare calls of extensions, which either side may make, and for their responses.
export function readTrace(file) {
  const requests = new Requests();
  return readFileSync(file, "utf8")
    .split("\n")
    .map((text, i) => ({ text, line: i + 1 }))
    .filter(({ text }) => text.trim() !== "")
    .map(({ text, line }) => {
      const { direction, message } = unwrap(text, line);
      const entry = { line, message, direction: direction ?? requests.directionOf(message) };
      requests.note(entry);
      return entry;
    });
}

function unwrap(text, line) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`line ${line}: not JSON`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error(`line ${line}: not an object`);
  if ("jsonrpc" in value) return { message: value };
  if (!time.test(value.ts)) throw new Error(`line ${line}: ts is not an RFC 3339 time`);
  if (![toAgent, toClient].includes(value.direction)) throw new Error(`line ${line}: no such direction`);
  if (typeof value.message !== "object" || value.message === null) throw new Error(`line ${line}: no message`);
  return value;
}

// Requests that wait for their response. Both sides number theirs from 0.
export class Requests {
  #open = { [toAgent]: new Map(), [toClient]: new Map(), [undefined]: new Map() }; // by the direction of the request

  // Notes a request; for a response gives back the entry of its request, which is then no longer open.
  note(entry) {
    const { message, direction } = entry;
    if ("method" in message) {
      if ("id" in message) this.#open[direction].set(message.id, entry);
      return undefined;
    }
    const open = this.#open[direction && opposite(direction)];
    const request = open.get(message.id);
    open.delete(message.id);
    return request;
  }

  get size() {
    return Object.values(this.#open).reduce((total, open) => total + open.size, 0);
  }

  // The direction of a bare message, by its method, or by the request that it answers or takes back. Where both
  // sides wait for that id, the shape of the result decides.
  directionOf(message) {
    const waiting = (id) => [toAgent, toClient].map((direction) => this.#open[direction].get(id)).filter(Boolean);
    if (message.method === "$/cancel_request") return waiting(message.params?.requestId)[0]?.direction;
    if ("method" in message) return { agent: toAgent, client: toClient }[methods.get(message.method)?.side];
    const candidates = waiting(message.id);
    const fitting = candidates.filter((request) => {
      const validate = methods.get(request.message.method)?.response;
      return !("result" in message) || !validate || !fault(validate, message.result);
    });
    if (this.#open[undefined].has(message.id)) return fitting.length ? opposite(fitting.at(-1).direction) : undefined;
    const request = fitting.at(-1) ?? candidates.at(-1);
    return request && opposite(request.direction);
  }
}
