// replay.mjs FILE...
// Plays ACP traces to the SDK's client: a fake agent sends the agent's messages of the file, the client's requests and
// answers are made through the SDK. Every message has to arrive as it is in the file, every prompt has to end as
// it does there. Exit 1 at the first message of a file that does not.

import { basename } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { client, methods as sdkMethods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";
import { methods } from "./schema.mjs";
import { readTrace, Requests } from "./trace.mjs";
import { toAgent } from "./wire.mjs";

const patience = 2000; // milliseconds for a message to arrive

// What the SDK complains about: it tells the console, not the caller, of notifications that it refuses.
let complaints = [];
console.error = (...args) => complaints.push(args.map((arg) => arg?.message ?? arg).join(" "));

// Things that arrive one after the other, for one reader.
class Inbox {
  #things = [];
  #reader;

  put(thing) {
    if (this.#reader) this.#reader(thing);
    else this.#things.push(thing);
    this.#reader = undefined;
  }

  take() {
    if (this.#things.length) return Promise.resolve(this.#things.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`nothing arrived; ${complaints.join("; ") || "the SDK says nothing"}`)), patience);
      this.#reader = (thing) => {
        clearTimeout(timer);
        resolve(thing);
      };
    });
  }
}

// The far end of the client's connection.
class FakeAgent {
  received = new Inbox(); // messages that the client wrote
  #toClient = new TransformStream();
  #writer = this.#toClient.writable.getWriter();

  get stream() {
    const decoder = new TextDecoder();
    let rest = "";
    const written = new WritableStream({
      write: (chunk) => {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop();
        for (const line of lines) this.received.put(JSON.parse(line));
      },
    });
    return ndJsonStream(written, this.#toClient.readable);
  }

  send(message) {
    return this.#writer.write(new TextEncoder().encode(JSON.stringify(message) + "\n"));
  }

  close() {
    return this.#writer.close();
  }
}

// The client: handlers put what arrives into heard, and answer requests when the trace does.
function openClient(agent) {
  const heard = new Inbox();
  const app = client({ name: "interop-replay" });
  for (const [method, { side, request }] of methods) {
    if (side !== "client") continue;
    if (request) {
      app.onRequest(method, ({ params }) => new Promise((resolve, reject) => heard.put({ method, params, resolve, reject })));
    } else {
      app.onNotification(method, ({ params }) => heard.put({ method, params }));
    }
  }
  app.onRequest("*", ({ method, params }) => new Promise((resolve, reject) => heard.put({ method, params, resolve, reject })));
  app.onNotification("*", ({ method, params }) => heard.put({ method, params }));
  return { heard, connection: app.connect(agent.stream) };
}

function expect(what, got, want) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what} differs from the trace`);
}

async function replay(entries) {
  const agent = new FakeAgent();
  const { heard, connection } = openClient(agent);
  const requests = new Requests();
  const ids = new Map(); // of the client's requests: in the trace -> as the SDK numbers them
  const pending = new Map(); // the client's requests by their id in the trace: the outcome that the SDK gives
  const waiting = new Map(); // the agent's requests by id: what answers them
  const count = { messages: 0, prompts: 0, updates: 0, permissions: 0, skipped: 0 };
  const stops = {};

  const fromClient = async ({ method, params, id, result, error }, request) => {
    if (method && id !== undefined) {
      pending.set(id, connection.agent.request(method, params).then((value) => ({ result: value }), (reason) => ({ reason })));
      const sent = await agent.received.take();
      expect(`request ${method}`, { method: sent.method, params: sent.params }, { method, params });
      ids.set(id, sent.id);
      count.prompts += method === sdkMethods.agent.session.prompt;
    } else if (method) {
      const mapped = method === "$/cancel_request" ? { ...params, requestId: ids.get(params.requestId) } : params;
      await connection.agent.notify(method, mapped);
      expect(`notification ${method}`, await agent.received.take(), { jsonrpc: "2.0", method, ...(params && { params: mapped }) });
    } else {
      const { resolve, reject } = waiting.get(id);
      if (error) reject(new RequestError(error.code, error.message, error.data));
      else resolve(result);
      expect(`answer to ${request.message.method}`, await agent.received.take(), { jsonrpc: "2.0", id, ...(error ? { error } : { result }) });
    }
  };

  const fromAgent = async (message, request) => {
    const { method, params, id } = message;
    if (method) {
      await agent.send(message);
      const { resolve, reject, ...arrived } = await heard.take();
      expect(method, arrived, { method, params });
      if (id !== undefined) waiting.set(id, { resolve, reject });
      count.updates += method === sdkMethods.client.session.update;
      count.permissions += method === sdkMethods.client.session.requestPermission;
      return;
    }
    await agent.send({ ...message, id: ids.get(id) });
    const { result, reason } = await pending.get(id);
    pending.delete(id);
    const asked = request.message.method;
    const isPrompt = asked === sdkMethods.agent.session.prompt;
    if (message.error) {
      // The SDK takes "no such session" for success when the session was to go anyway.
      const gone = message.error.code === -32002 && ["session/close", "session/delete"].includes(asked);
      if (gone) expect(`result of ${asked}`, result, {});
      else expect(`error of ${asked}`, { code: reason?.code, message: reason?.message, data: reason?.data }, { data: undefined, ...message.error });
      if (isPrompt) stops[`error ${message.error.code}`] = (stops[`error ${message.error.code}`] ?? 0) + 1;
      return;
    }
    if (reason) throw new Error(`result of ${asked} was refused: ${reason.message}`);
    expect(`result of ${asked}`, result, message.result);
    if (isPrompt) stops[result.stopReason] = (stops[result.stopReason] ?? 0) + 1;
  };

  try {
    for (const entry of entries) {
      const { line, direction, message } = entry;
      try {
        if (!direction) {
          count.skipped++; // a bare message of an extension
          continue;
        }
        const request = requests.note(entry);
        if (!("method" in message) && !request) throw new Error(`no request waits for id ${message.id}`);
        await (direction === toAgent ? fromClient : fromAgent)(message, request);
        count.messages++;
      } catch (error) {
        throw new Error(`line ${line}: ${error.message}`);
      }
    }
  } finally {
    // Prompts that the trace leaves open end with the connection.
    await agent.close();
    await connection.closed;
  }
  return { ...count, open: requests.size, stops };
}

const files = process.argv.slice(2);
if (!files.length) {
  process.stderr.write("usage: replay.mjs FILE...\n");
  process.exit(2);
}
for (const file of files) {
  complaints = [];
  try {
    const entries = readTrace(file);
    if (!entries.length) throw new Error("no messages");
    const { stops, open, ...count } = await replay(entries);
    const counts = Object.entries({ ...count, ...stops, unanswered: open }).map(([what, n]) => `${n} ${what}`);
    console.log(`${basename(file)}: ok, ${counts.join(", ")}`);
  } catch (error) {
    process.stderr.write(`${file}: ${error.message}\n`);
    process.exitCode = 1;
  }
}
