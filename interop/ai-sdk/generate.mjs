// generate.mjs DIR: writes the fixtures. generate.mjs --check DIR: compares them with a fresh run.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { toJSON, toJSONL, toRows } from "./rows.mjs";
import { scripts } from "./scripts.mjs";
import { sdks } from "./sdks.mjs";

function streamOf(chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(structuredClone(chunk));
      controller.close();
    },
  });
}

// The message after the reducer saw chunks.
async function reduce({ ai }, message, { chunks, errors = [] }) {
  for (const chunk of chunks) {
    const { success, error } = await ai.uiMessageChunkSchema().validate(chunk);
    if (!success) throw new Error(`the SDK has no such chunk: ${JSON.stringify(chunk)}: ${error.message}`);
  }
  const seen = [];
  for await (const state of ai.readUIMessageStream({
    message,
    stream: streamOf(chunks),
    onError: (error) => seen.push(error.message),
  })) {
    message = state;
  }
  if (!isDeepStrictEqual(seen, errors)) throw new Error(`errors in the stream: ${JSON.stringify(seen)}`);
  return message;
}

// The message after the user answered a question: the SDK does that in its chat, not in a stream.
async function answer({ ai }, message, response) {
  class Chat extends ai.AbstractChat {}
  const state = {
    status: "ready",
    error: undefined,
    messages: [message],
    pushMessage: (m) => state.messages.push(m),
    popMessage: () => state.messages.pop(),
    replaceMessage: (index, m) => (state.messages[index] = m),
    snapshot: structuredClone,
  };
  const chat = new Chat({ state, id: "chat", generateId: () => "unused" });
  await chat.addToolApprovalResponse(response);
  return chat.lastMessage;
}

async function play(sdk, script) {
  let message;
  for (const step of script.steps) {
    message = step.chunks ? await reduce(sdk, message, step) : await answer(sdk, message, step.answer);
  }
  if (script.demote) [message] = await sdk.ai.validateUIMessages({ messages: [message], tools: {} });
  return [
    { role: "user", metadata: { schema_version: 1 }, parts: script.user },
    { role: message.role, metadata: message.metadata ?? {}, parts: message.parts },
  ];
}

const check = process.argv[2] === "--check";
const directory = process.argv.at(-1);
let drifted = false;
for (const sdk of sdks) {
  const messages = [];
  for (const script of scripts) {
    if (!script.only || script.only === sdk.name) messages.push(...(await play(sdk, script)));
  }
  const session = toRows(sdk.name, messages);
  for (const [ending, content] of [["json", toJSON(session)], ["jsonl", toJSONL(session)]]) {
    const file = join(directory, `${sdk.name}.${ending}`);
    if (!check) {
      mkdirSync(directory, { recursive: true });
      writeFileSync(file, content);
      continue;
    }
    const now = content.split("\n");
    const committed = readFileSync(file, "utf8").split("\n");
    const at = Array.from({ length: Math.max(now.length, committed.length) }, (_, i) => i).find((i) => now[i] !== committed[i]);
    if (at === undefined) continue;
    drifted = true;
    console.error(`${file}:${at + 1} differs\n  now:       ${now[at]}\n  committed: ${committed[at]}`);
  }
}
if (drifted) process.exitCode = 1;
