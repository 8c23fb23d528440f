// agent.mjs SCENARIO [--tree FILE] [--wire FILE]
// Plays the agent's half of a scenario on stdin and stdout until stdin ends. Then the FILE of --tree has what the agent
// did; the bytes that it read and wrote are in FILE.in and FILE.out of --wire.

import { appendFileSync, writeFileSync } from "node:fs";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";
import { Ledger, newPrompt } from "./ledger.mjs";
import { find } from "./scenarios.mjs";
import { Turn } from "./turn.mjs";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { tree: { type: "string" }, wire: { type: "string" } },
});
const scenario = find(positionals[0]);
const script = scenario.agent;
const ledger = new Ledger(scenario.name, scenario.what);
const running = new Map(); // session id -> Turn

// Also when a scenario makes the agent die.
process.on("exit", () => flags.tree && ledger.write(flags.tree));
process.on("SIGTERM", () => process.exit(143));
if (script.stderr) process.stderr.write(script.stderr);

const modes = {
  currentModeId: "ask",
  availableModes: [
    { id: "ask", name: "Ask", description: "Asks before it changes anything" },
    { id: "code", name: "Code" },
  ],
};

// The session of that id, if it is open on this connection.
function open(sessionId) {
  const session = ledger.session(sessionId);
  if (session.cwd === null || session.closed) throw RequestError.sessionNotFound(sessionId);
  return session;
}

let opened = 0;
const app = agent({ name: "interop-agent" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "interop-agent", title: "Interop agent", version: "1.0.0" },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, audio: true, embeddedContext: true },
      sessionCapabilities: { close: {}, delete: {}, list: {}, resume: {} },
    },
    authMethods: script.authMethods ?? [],
  }))
  .onRequest(methods.agent.authenticate, () => ({}))
  .onRequest(methods.agent.logout, () => ({}))
  .onRequest(methods.agent.session.new, ({ params }) => {
    opened++;
    const session = ledger.session(`sess_${scenario.name}_${opened}`, params.cwd);
    if (!script.configOptions) return { sessionId: session.id };
    session.mode = modes.currentModeId;
    session.config = script.configOptions.map(({ id, currentValue }) => ({ id, value: currentValue }));
    return { sessionId: session.id, modes, configOptions: script.configOptions };
  })
  .onRequest(methods.agent.session.load, async ({ params, client }) => {
    const session = ledger.session(params.sessionId, params.cwd);
    session.loaded = true;
    const replay = new Replay(client, session);
    await script.history[params.sessionId](replay, session.prompts);
    return {};
  })
  .onRequest(methods.agent.session.resume, ({ params }) => {
    ledger.session(params.sessionId, params.cwd).resumed = true;
    return {};
  })
  .onRequest(methods.agent.session.list, () => ({
    sessions: script.listed ?? [],
  }))
  .onRequest(methods.agent.session.close, ({ params }) => {
    open(params.sessionId).closed = true;
    return {};
  })
  .onRequest(methods.agent.session.delete, ({ params }) => {
    ledger.session(params.sessionId).deleted = true;
    return {};
  })
  .onRequest(methods.agent.session.setMode, ({ params }) => {
    open(params.sessionId).mode = params.modeId;
    return {};
  })
  .onRequest(methods.agent.session.setConfigOption, ({ params }) => {
    const session = open(params.sessionId);
    const configOptions = script.configOptions.map((option) =>
      option.id === params.configId ? { ...option, currentValue: params.value } : option,
    );
    session.config = configOptions.map(({ id, currentValue }) => ({ id, value: currentValue }));
    return { configOptions };
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client, signal }) => {
    const session = ledger.session(params.sessionId);
    const prompt = newPrompt(params);
    session.prompts.push(prompt);
    const turn = new Turn(client, session, prompt, params, signal, write);
    running.set(session.id, turn);
    try {
      open(session.id);
      const stopReason = await script.prompts[prompt.text](turn);
      prompt.stop_reason = stopReason;
      return { stopReason };
    } catch (error) {
      if (!(error instanceof RequestError)) {
        console.error(error);
        process.exit(70);
      }
      prompt.error = { code: error.code, message: error.message };
      throw error;
    } finally {
      running.delete(session.id);
    }
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => {
    running.get(params.sessionId)?.cancel();
  });
for (const [method, handler] of Object.entries(script.extensions ?? {})) {
  app.onRequest(method, (params) => params, ({ params, client }) => handler(params, client));
}

// History that session/load replays: it goes to history, not to prompts.
class Replay extends Turn {
  constructor(client, session) {
    const prompt = newPrompt({ prompt: [] });
    super(client, session, prompt, {}, null);
    session.history = prompt.messages;
    session.history_tool_calls = prompt.tool_calls;
  }
}

// Bytes go to the file before they go on, so that none is lost when the agent dies.
function tee(suffix) {
  if (!flags.wire) return () => {};
  const file = flags.wire + suffix;
  writeFileSync(file, "");
  return (chunk) => appendFileSync(file, chunk);
}
const noteInput = tee(".in");
const noteOutput = tee(".out");
process.stdin.on("data", noteInput);
const input = Readable.toWeb(process.stdin);
function write(chunk) {
  noteOutput(chunk);
  return new Promise((resolve) => process.stdout.write(chunk, resolve));
}
const output = new WritableStream({ write });
const connection = app.connect(ndJsonStream(output, input));
await connection.closed;
process.exit(0);
