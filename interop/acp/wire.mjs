// The client's end of the wire: every line in the order in which the client wrote or got it, with its exact bytes.

import { Readable } from "node:stream";

export const toAgent = "client_to_agent";
export const toClient = "agent_to_client";

export class Wire {
  lines = []; // {direction, text}
  stderr = "";

  constructor(child) {
    const partial = { [toAgent]: "", [toClient]: "" };
    const decoders = { [toAgent]: new TextDecoder(), [toClient]: new TextDecoder() };
    const note = (direction, chunk) => {
      const parts = (partial[direction] + decoders[direction].decode(chunk, { stream: true })).split("\n");
      partial[direction] = parts.pop();
      for (const text of parts) this.lines.push({ direction, text });
    };
    child.stdout.on("data", (chunk) => note(toClient, chunk));
    child.stderr.on("data", (chunk) => (this.stderr += chunk));
    this.input = Readable.toWeb(child.stdout);
    this.output = new WritableStream({
      write(chunk) {
        note(toAgent, chunk);
        return new Promise((resolve, reject) => child.stdin.write(chunk, (error) => (error ? reject(error) : resolve())));
      },
    });
  }

  // The lines of one direction, or of both.
  raw(direction) {
    const wanted = direction ? this.lines.filter((line) => line.direction === direction) : this.lines;
    return wanted.map((line) => line.text + "\n").join("");
  }

  // What the lines say: {direction, message}.
  messages() {
    return this.lines
      .filter(({ text }) => text.trim() !== "")
      .map(({ direction, text }) => ({ direction, message: JSON.parse(text) }));
  }

  // The messages in the envelope, with the times of a made-up clock.
  envelopes() {
    let now = Date.parse("2026-01-05T10:00:00Z");
    return this.messages()
      .map(({ direction, message }) => {
        now += pause(message);
        return JSON.stringify({ ts: new Date(now).toISOString(), direction, message }) + "\n";
      })
      .join("");
  }
}

// Milliseconds between the line before and this one: people think, models write, tools work.
function pause(message) {
  switch (message.method) {
    case "session/prompt":
      return 4000;
    case "session/cancel":
      return 2500;
    case "session/update":
      switch (message.params.update.sessionUpdate) {
        case "agent_message_chunk":
        case "agent_thought_chunk":
          return 40;
        case "tool_call":
          return 300;
        default:
          return 15;
      }
  }
  if (message.result?.outcome) return 1500; // permission answered
  if (message.result && "exitCode" in message.result) return 700; // command waited for
  return 5;
}
